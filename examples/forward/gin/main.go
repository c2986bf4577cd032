// Command forward puts a web service of its own, made with Gin, before a box: its users never see the
// box or its key. Bodies go through as they come, in both directions. Who a user is, is said by a header
// here: put your own sign-in there.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

	"sallyport.example/sandbox"
)

func main() {
	box, err := sandbox.NewBox(os.Getenv("BOX_URL"), os.Getenv("BOX_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	gin.SetMode(gin.ReleaseMode)
	app := gin.New()
	workspace := func(c *gin.Context) *sandbox.Workspace { return box.WorkspaceOf("forward", c.GetHeader("X-User")) }

	// The request's context ends when the user leaves; so does the command.
	app.POST("/run", func(c *gin.Context) {
		var ask struct{ Command string }
		if c.BindJSON(&ask) != nil {
			return
		}
		live, err := workspace(c).Start(c.Request.Context(), sandbox.Command{Line: ask.Command})
		if failed(c, err) {
			return
		}
		defer live.Close()
		c.Header("Content-Type", "text/event-stream")
		for {
			out, err := live.Next()
			if err != nil {
				break
			}
			event(c, out.Stream, map[string]string{"text": out.Text})
		}
		if exit := live.Exit(); exit != nil {
			event(c, "exit", map[string]int{"exit_code": exit.ExitCode})
		}
	})
	app.PUT("/files/*path", func(c *gin.Context) {
		size := c.Request.ContentLength // -1: it comes in chunks
		stored, err := workspace(c).Write(c.Request.Context(), c.Param("path")[1:], c.Request.Body,
			sandbox.WriteOptions{Size: size})
		if !failed(c, err) {
			c.JSON(http.StatusOK, gin.H{"path": stored.Path, "size": stored.Size})
		}
	})
	app.GET("/archive", func(c *gin.Context) {
		tar, err := workspace(c).Archive(c.Request.Context(), "")
		if failed(c, err) {
			return
		}
		defer tar.Close()
		c.DataFromReader(http.StatusOK, -1, "application/x-tar", tar, nil)
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, app))
}

func event(c *gin.Context, name string, data interface{}) {
	text, err := json.Marshal(data)
	if err != nil {
		return
	}
	fmt.Fprintf(c.Writer, "event: %s\ndata: %s\n\n", name, text)
	c.Writer.Flush()
}

// failed answers with what the box said; what it didn't say is nobody's business.
func failed(c *gin.Context, err error) bool {
	var e *sandbox.Error
	switch {
	case err == nil:
		return false
	case errors.As(err, &e):
		c.JSON(e.Status, gin.H{"code": e.Code})
	default:
		log.Print(err)
		c.JSON(http.StatusBadGateway, gin.H{"code": "unreachable"})
	}
	return true
}
