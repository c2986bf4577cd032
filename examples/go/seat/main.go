// Command walk is a walk through the Go client. It trusts the daemon at SEAT_URL.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"sallyport.example/sandbox"
)

func main() {
	address := os.Getenv("SEAT_URL")
	if address == "" {
		address = "http://127.0.0.1:8080"
	}
	seat, err := sandbox.NewSeat(address)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for all that follows
	defer cancel()
	health, err := seat.Health(ctx)
	check(err)
	fmt.Println("health:", health)
	commands(ctx, seat)
	files(ctx, seat)
	fmt.Println("done")
}

func commands(ctx context.Context, seat *sandbox.Seat) {
	// A command that fails is a result, not an error.
	result, err := seat.Execute(ctx, sandbox.Command{Line: `echo "hello $WHO"; exit 3`, Timeout: 5 * time.Second,
		Env: map[string]string{"WHO": "world"}})
	check(err)
	fmt.Println("exit code:", result.ExitCode, "stdout:", strings.TrimSpace(result.Stdout))

	// Its output while it runs. An error of the callback would kill it.
	steps := sandbox.Command{Line: "for i in 1 2 3; do echo step $i; sleep 0.1; done"}
	exit, err := seat.Stream(ctx, steps, func(o sandbox.Output) error {
		fmt.Printf("%s: %s\n", o.Stream, strings.TrimSpace(o.Text))
		return nil
	})
	check(err)
	fmt.Println("ended with", exit.ExitCode)

	// The same as a reader. Closing it early would kill the command.
	live, err := seat.Start(ctx, steps)
	check(err)
	defer live.Close()
	text, err := io.ReadAll(live)
	check(err)
	fmt.Println("read while it ran:", strings.Fields(string(text)))
}

func files(ctx context.Context, seat *sandbox.Seat) {
	// Anything that can be read is written; nothing is buffered on the way.
	stored, err := seat.Write(ctx, "example/notes/a.txt", strings.NewReader("some bytes"), sandbox.WriteOptions{})
	check(err)
	_, err = seat.Write(ctx, "example/big", bytes.NewReader(make([]byte, 1000000)), sandbox.WriteOptions{})
	check(err)
	data, err := seat.Read(ctx, "example/notes/a.txt", sandbox.Range{})
	check(err)
	fmt.Println("read:", string(data))
	body, err := seat.Open(ctx, "example/big", sandbox.Range{})
	check(err)
	n, err := io.Copy(io.Discard, body)
	check(err)
	check(body.Close())
	fmt.Println("big:", n)
	list, err := seat.List(ctx, "example")
	check(err)
	for _, e := range list.Entries {
		fmt.Println("name:", e.Name)
	}

	// Two writers: the second one learns that it was too late.
	_, err = seat.Write(ctx, "example/notes/a.txt", strings.NewReader("other bytes"), sandbox.WriteOptions{})
	check(err)
	_, err = seat.Write(ctx, "example/notes/a.txt", strings.NewReader("late"), sandbox.WriteOptions{IfMatch: stored.ETag})
	var refused *sandbox.Error
	if !errors.As(err, &refused) {
		log.Fatal("not refused: ", err)
	}
	fmt.Println("refused:", refused.Code, refused.Status)
	check(seat.DeletePath(ctx, "example", sandbox.DeleteOptions{Recursive: true}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
