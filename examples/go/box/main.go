// Command box is a walk through the Go client of the box. It trusts the daemon at BOX_URL, and has its key.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"sallyport.example/sandbox"
)

func main() {
	address := os.Getenv("BOX_URL")
	if address == "" {
		address = "http://127.0.0.1:8080"
	}
	box, err := sandbox.NewBox(address, os.Getenv("BOX_KEY"))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for all that follows
	defer cancel()
	check(box.WaitReady(ctx))
	offer, err := box.Capabilities(ctx)
	check(err)
	fmt.Println("version is there:", offer.Version != "", "commands at a time:", offer.Limits["max_concurrency"])

	// Each identity has a workspace and a user id of its own. The same name of another tenant is another one.
	alice, bob := box.WorkspaceOf("example", "alice"), box.WorkspaceOf("example", "bob")
	commands(ctx, alice)
	names, err := bob.List(ctx, "")
	check(err)
	fmt.Println("bob sees:", len(names.Entries))
	files(ctx, alice)
	check(alice.DeleteWorkspace(ctx))
	check(bob.DeleteWorkspace(ctx))
	fmt.Println("done")
}

func commands(ctx context.Context, ws *sandbox.Workspace) {
	// A command and the files that it works on, in one request.
	result, err := ws.Execute(ctx, sandbox.Command{Line: "sort in/names | tee sorted",
		Files: []sandbox.File{{Path: "in/names", Body: strings.NewReader("ben\nada\n")}}})
	check(err)
	fmt.Println("sorted:", strings.Fields(result.Stdout))

	// Its output while it runs. An error of the callback would kill it.
	_, err = ws.Stream(ctx, sandbox.Command{Line: "for i in 1 2 3; do echo step $i; sleep 0.1; done"},
		func(o sandbox.Output) error {
			fmt.Printf("%s: %s\n", o.Stream, strings.TrimSpace(o.Text))
			return nil
		})
	check(err)
}

func files(ctx context.Context, ws *sandbox.Workspace) {
	// One at a time, or several at once that are all there or none. Nothing is buffered on the way.
	_, err := ws.Write(ctx, "big", bytes.NewReader(make([]byte, 1000000)), sandbox.WriteOptions{})
	check(err)
	_, err = ws.WriteBatch(ctx, "many", []sandbox.File{{Path: "a.txt", Body: strings.NewReader("a")},
		{Path: "b/c.txt", Body: strings.NewReader("c")}})
	check(err)
	tree, err := ws.ListTree(ctx, "many")
	check(err)
	for _, e := range tree.Entries {
		fmt.Println("name:", e.Name)
	}
	n, err := ws.Download(ctx, "big", io.Discard, sandbox.Range{})
	check(err)
	fmt.Println("big:", n)

	// All of it as a tar, made while it is read.
	body, err := ws.Archive(ctx, "")
	check(err)
	defer body.Close()
	count := 0
	for archive := tar.NewReader(body); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		check(err)
		if h.Typeflag == tar.TypeReg {
			count++
		}
	}
	fmt.Println("files in the archive:", count)
	usage, err := ws.Usage(ctx)
	check(err)
	fmt.Println("bytes used:", usage.Bytes > 1000000)
	_, err = ws.Read(ctx, "none", sandbox.Range{})
	fmt.Println("refused:", sandbox.IsCode(err, "not_found"))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
