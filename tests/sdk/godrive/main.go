// Command godrive runs operations through the Go client, for tests/sdk; see drive.py.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sallyport.example/sandbox"
)

type args struct {
	Command   string            `json:"command"`
	Timeout   float64           `json:"timeout"`
	Env       map[string]string `json:"env"`
	Cwd       string            `json:"cwd"`
	Stdin     *string           `json:"stdin"`
	Deadline  float64           `json:"deadline"`
	Path      string            `json:"path"`
	Text      string            `json:"text"`
	How       string            `json:"how"`
	Size      int64             `json:"size"`
	Start     int64             `json:"start"`
	End       *int64            `json:"end"`
	NewOnly   bool              `json:"new_only"`
	IfMatch   string            `json:"if_match"`
	Recursive bool              `json:"recursive"`
}

type result = map[string]interface{}

var (
	seat *sandbox.Seat
	held *sandbox.Live
)

func say(v interface{}) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
}

func (a args) cmd() sandbox.Command {
	return sandbox.Command{Line: a.Command, Timeout: time.Duration(a.Timeout * float64(time.Second)), Env: a.Env,
		Dir: a.Cwd, Stdin: a.Stdin}
}

func orNull(s string) interface{} {
	if s == "" {
		return nil
	}
	return s
}

func exitOf(e *sandbox.Exit, r result) result {
	r["exit_code"], r["signal"], r["timed_out"] = e.ExitCode, orNull(e.Signal), e.TimedOut
	r["duration_ms"], r["stdout_bytes"], r["stderr_bytes"] = e.Duration.Milliseconds(), e.StdoutBytes, e.StderrBytes
	r["oom_killed"] = e.OOMKilled
	return r
}

func execute(ctx context.Context, a args) (result, error) {
	x, err := seat.Execute(ctx, a.cmd())
	if err != nil {
		return nil, err
	}
	return result{"stdout": x.Stdout, "stderr": x.Stderr, "exit_code": x.ExitCode, "signal": orNull(x.Signal),
		"timed_out": x.TimedOut, "oom_killed": x.OOMKilled, "duration_ms": x.Duration.Milliseconds(),
		"stdout_truncated": x.StdoutTruncated, "stderr_truncated": x.StderrTruncated}, nil
}

func stream(ctx context.Context, a args, tell bool) (result, error) {
	got := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
	exit, err := seat.Stream(ctx, a.cmd(), func(o sandbox.Output) error {
		got[o.Stream].WriteString(o.Text)
		if tell {
			say(result{"event": o.Stream, "text": o.Text})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return exitOf(exit, result{"stdout": got["stdout"].String(), "stderr": got["stderr"].String()}), nil
}

var errEnough = errors.New("enough")

func leave(ctx context.Context, a args) (result, error) {
	text := ""
	_, err := seat.Stream(ctx, a.cmd(), func(o sandbox.Output) error {
		text = o.Text
		return errEnough
	})
	if err != errEnough {
		return nil, fmt.Errorf("not the callback's error: %w", err)
	}
	return result{"text": text}, nil
}

func hold(_ context.Context, a args) (result, error) {
	var err error
	held, err = seat.Start(context.Background(), a.cmd())
	return result{}, err
}

func take(_ context.Context, a args) (result, error) {
	n, err := io.CopyN(io.Discard, held, a.Size)
	held.Close()
	return result{"bytes": n}, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0
	}
	return len(p), nil
}

func put(ctx context.Context, a args, body io.Reader, size int64) (result, error) {
	s, err := seat.Write(ctx, a.Path, body, sandbox.WriteOptions{Size: size, NewOnly: a.NewOnly, IfMatch: a.IfMatch})
	if err != nil {
		return nil, err
	}
	return result{"path": s.Path, "size": s.Size, "etag": s.ETag, "created": s.Created}, nil
}

func write(ctx context.Context, a args) (result, error) {
	body, size := io.Reader(strings.NewReader(a.Text)), int64(0)
	if a.How != "" {
		body = io.MultiReader(body) // of a kind whose size can't be known
	}
	if a.How == "sized" {
		size = int64(len(a.Text))
	}
	return put(ctx, a, body, size)
}

func upload(ctx context.Context, a args) (result, error) {
	size := a.Size
	if a.How == "chunked" {
		size = 0
	}
	return put(ctx, a, io.LimitReader(zeros{}, a.Size), size)
}

func download(ctx context.Context, a args) (result, error) {
	body, err := seat.Open(ctx, a.Path, sandbox.Range{})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	n, err := io.Copy(io.Discard, body)
	return result{"bytes": n}, err
}

func read(ctx context.Context, a args) (result, error) {
	part := sandbox.Range{Start: a.Start}
	if a.End != nil {
		part.Length = *a.End - a.Start
	}
	data, err := seat.Read(ctx, a.Path, part)
	return result{"text": string(data)}, err
}

func list(ctx context.Context, a args) (result, error) {
	l, err := seat.List(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	entries := []result{}
	for _, e := range l.Entries {
		entries = append(entries, result{"name": e.Name, "type": e.Type, "size": e.Size, "mode": e.Mode})
	}
	return result{"path": l.Path, "truncated": l.Truncated, "entries": entries}, nil
}

func head(ctx context.Context, a args) (result, error) {
	i, err := seat.Head(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	return result{"is_directory": i.IsDir, "size": i.Size, "etag": orNull(i.ETag)}, nil
}

func run(ctx context.Context, op string, a args) (result, error) {
	switch op {
	case "execute":
		return execute(ctx, a)
	case "stream":
		return stream(ctx, a, false)
	case "follow":
		return stream(ctx, a, true)
	case "leave":
		return leave(ctx, a)
	case "hold":
		return hold(ctx, a)
	case "take":
		return take(ctx, a)
	case "write":
		return write(ctx, a)
	case "upload":
		return upload(ctx, a)
	case "download":
		return download(ctx, a)
	case "read":
		return read(ctx, a)
	case "delete":
		return result{}, seat.Delete(ctx, a.Path, a.Recursive)
	case "list":
		return list(ctx, a)
	case "head":
		return head(ctx, a)
	case "health":
		status, err := seat.Health(ctx)
		return result{"status": status}, err
	}
	return nil, fmt.Errorf("no operation %q", op)
}

func failed(err error) result {
	var e *sandbox.Error
	if errors.As(err, &e) {
		r := result{"error": "api", "code": e.Code, "status": e.Status, "message": e.Message, "retry_after": nil}
		if e.RetryAfter > 0 {
			r["retry_after"] = e.RetryAfter.Seconds()
		}
		return r
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return result{"error": "deadline", "message": err.Error()}
	}
	return result{"error": "transport", "message": err.Error()}
}

func options() []sandbox.Option {
	if len(os.Args) < 3 {
		return nil
	}
	pem, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		panic("no certificate in the file")
	}
	return []sandbox.Option{sandbox.WithTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})}
}

func main() {
	var err error
	if seat, err = sandbox.NewSeat(os.Args[1], options()...); err != nil {
		panic(err)
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var ask struct {
			Op   string
			Args args
		}
		if err := json.Unmarshal(line, &ask); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		if ask.Args.Deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(ask.Args.Deadline*float64(time.Second)))
		}
		r, err := run(ctx, ask.Op, ask.Args)
		cancel()
		if err != nil {
			r = failed(err)
		}
		say(r)
	}
}
