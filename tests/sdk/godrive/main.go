// Command godrive runs operations through the Go client, for tests/sdk; see drive.py.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
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

	UnmodifiedSince *float64 `json:"unmodified_since"`

	Folder   string            `json:"folder"`
	Files    map[string]string `json:"files"`
	BusyWait float64           `json:"busy_wait"`
	Source   string            `json:"source"`
	To       string            `json:"to"`
}

type result = map[string]interface{}

var (
	seat *sandbox.Seat // or
	box  *sandbox.Box
	work *sandbox.Workspace // of the identity at hand
	at   sandbox.Backend    // the seat, or it
	held *sandbox.Live
)

func say(v interface{}) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func (a args) cmd() sandbox.Command {
	return sandbox.Command{Line: a.Command, Timeout: seconds(a.Timeout), Env: a.Env, Dir: a.Cwd, Stdin: a.Stdin,
		Files: a.given(), BusyWait: seconds(a.BusyWait)}
}

// given are attachments; how: "" or, from a source that knows no size, "chunked".
func (a args) given() []sandbox.File {
	var files []sandbox.File
	for path, text := range a.Files {
		body := io.Reader(strings.NewReader(text))
		if a.How == "chunked" {
			body = io.MultiReader(body)
		}
		files = append(files, sandbox.File{Path: path, Body: body})
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	return files
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
	r["oom_killed"], r["quota_exceeded"] = e.OOMKilled, e.QuotaExceeded
	return r
}

func execute(ctx context.Context, a args) (result, error) {
	x, err := at.Execute(ctx, a.cmd())
	if err != nil {
		return nil, err
	}
	return result{"stdout": x.Stdout, "stderr": x.Stderr, "exit_code": x.ExitCode, "signal": orNull(x.Signal),
		"timed_out": x.TimedOut, "oom_killed": x.OOMKilled, "quota_exceeded": x.QuotaExceeded, "duration_ms": x.Duration.Milliseconds(),
		"stdout_truncated": x.StdoutTruncated, "stderr_truncated": x.StderrTruncated}, nil
}

func stream(ctx context.Context, a args, tell bool) (result, error) {
	got := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
	exit, err := at.Stream(ctx, a.cmd(), func(o sandbox.Output) error {
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
	_, err := at.Stream(ctx, a.cmd(), func(o sandbox.Output) error {
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
	held, err = at.Start(context.Background(), a.cmd())
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

func put(ctx context.Context, a args, body io.Reader, size int64, by string) (result, error) {
	store := at.Write
	if by == "put_path" {
		store = work.PutPath
	}
	s, err := store(ctx, a.Path, body, sandbox.WriteOptions{Size: size, NewOnly: a.NewOnly, IfMatch: a.IfMatch})
	if err != nil {
		return nil, err
	}
	return result{"path": s.Path, "size": s.Size, "etag": s.ETag, "created": s.Created}, nil
}

func write(ctx context.Context, a args, by string) (result, error) {
	body, size := io.Reader(strings.NewReader(a.Text)), int64(0)
	if a.How != "" {
		body = io.MultiReader(body) // of a kind whose size can't be known
	}
	if a.How == "sized" {
		size = int64(len(a.Text))
	}
	return put(ctx, a, body, size, by)
}

func upload(ctx context.Context, a args) (result, error) {
	size := a.Size
	if a.How == "file" {
		f, err := os.Open(a.Source)
		if err != nil {
			return nil, err
		}
		return put(ctx, a, f, 0, "write") // which closes it
	}
	if a.How == "chunked" {
		size = 0
	}
	return put(ctx, a, io.LimitReader(zeros{}, a.Size), size, "write")
}

func writeBatch(ctx context.Context, a args) (result, error) {
	placed, err := work.WriteBatch(ctx, a.Folder, a.given())
	files := []result{}
	for _, f := range placed {
		files = append(files, result{"path": f.Path, "size": f.Size, "created": f.Created})
	}
	return result{"files": files}, err
}

func download(ctx context.Context, a args) (result, error) {
	var w io.Writer = io.Discard
	if a.To != "" {
		f, err := os.Create(a.To)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		w = f
	}
	n, err := at.Download(ctx, a.Path, w, sandbox.Range{})
	return result{"bytes": n}, err
}

func sink(ctx context.Context, a args) (result, error) {
	part, err := a.part()
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	n, err := at.Download(ctx, a.Path, &out, part)
	return result{"bytes": n, "text": out.String()}, err
}

func archive(ctx context.Context, a args) (result, error) {
	body, err := work.Archive(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if _, known := body.Whole(); known {
		return nil, errors.New("known before its end")
	}
	tar, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	whole, known := body.Whole()
	if !known {
		return nil, errors.New("not known at its end")
	}
	if n, err := work.DownloadArchive(ctx, a.Path, io.Discard); err != nil || n != int64(len(tar)) {
		return nil, fmt.Errorf("the second archive: %d bytes, %w", n, err)
	}
	return result{"base64": base64.StdEncoding.EncodeToString(tar), "whole": whole}, nil
}

func (a args) part() (sandbox.Range, error) {
	part := sandbox.Range{Start: a.Start}
	if a.End != nil {
		part.Length = *a.End - a.Start
		if part.Length == 0 { // which would be all the rest
			return part, errRefused
		}
	}
	return part, nil
}

var errRefused = errors.New("sandbox: the driver refuses that")

func read(ctx context.Context, a args) (result, error) {
	part, err := a.part()
	if err != nil {
		return nil, err
	}
	data, err := at.Read(ctx, a.Path, part)
	return result{"text": string(data)}, err
}

func list(ctx context.Context, a args) (result, error) {
	ask := at.List
	if a.Recursive {
		ask = work.ListTree
	}
	l, err := ask(ctx, a.Path)
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
	i, err := at.Head(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	return result{"is_directory": i.IsDir, "size": i.Size, "etag": orNull(i.ETag)}, nil
}

func usage(ctx context.Context, _ args) (result, error) {
	u, err := work.Usage(ctx)
	if err != nil {
		return nil, err
	}
	return result{"bytes": u.Bytes, "entries": u.Entries, "quota": u.Quota}, nil
}

func capabilities(ctx context.Context, _ args) (result, error) {
	c, err := box.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	return result{"name": c.Name, "version": c.Version, "mode": c.Mode, "limits": c.Limits, "layers": c.Layers,
		"routes": c.Routes}, nil
}

func health(ctx context.Context, _ args) (result, error) {
	ask := seat.Health
	if box != nil {
		ask = box.Health
	}
	status, err := ask(ctx)
	return result{"status": status}, err
}

var ops = map[string]func(context.Context, args) (result, error){
	"execute": execute, "leave": leave, "hold": hold, "take": take, "write_batch": writeBatch, "upload": upload,
	"download": download, "sink": sink, "archive": archive, "read": read, "list": list, "head": head, "usage": usage,
	"capabilities": capabilities, "health": health,
	"stream":   func(ctx context.Context, a args) (result, error) { return stream(ctx, a, false) },
	"follow":   func(ctx context.Context, a args) (result, error) { return stream(ctx, a, true) },
	"write":    func(ctx context.Context, a args) (result, error) { return write(ctx, a, "write") },
	"put_path": func(ctx context.Context, a args) (result, error) { return write(ctx, a, "put_path") },
	"delete_path": func(ctx context.Context, a args) (result, error) {
		o := sandbox.DeleteOptions{Recursive: a.Recursive, IfMatch: a.IfMatch}
		if a.UnmodifiedSince != nil {
			o.UnmodifiedSince = time.UnixMilli(int64(*a.UnmodifiedSince * 1000))
		}
		return result{}, at.DeletePath(ctx, a.Path, o)
	},
	"delete_workspace": func(ctx context.Context, _ args) (result, error) { return result{}, work.DeleteWorkspace(ctx) },
	"pull": func(ctx context.Context, a args) (result, error) {
		n, err := work.DownloadArchive(ctx, a.Path, io.Discard)
		return result{"bytes": n}, err
	},
	"metrics": func(ctx context.Context, _ args) (result, error) {
		text, err := box.Metrics(ctx)
		return result{"text": text}, err
	},
	"ready": func(ctx context.Context, _ args) (result, error) {
		ready, err := box.Ready(ctx)
		return result{"ready": ready}, err
	},
	"wait_ready": func(ctx context.Context, _ args) (result, error) { return result{}, box.WaitReady(ctx) },
}

var refusal = regexp.MustCompile("must|can't be sent twice|takes no files|refuses")

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
	// What the client refuses by itself has no cause behind it.
	if errors.Unwrap(err) == nil && refusal.MatchString(err.Error()) {
		return result{"error": "refused", "message": err.Error()}
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

// connect makes the client; with DRIVE_KEY it is a box's.
func connect() error {
	var err error
	if key := os.Getenv("DRIVE_KEY"); key != "" {
		box, err = sandbox.NewBox(os.Args[1], key, options()...)
		return err
	}
	seat, err = sandbox.NewSeat(os.Args[1], options()...)
	at = seat
	return err
}

func choose(who []string) {
	switch {
	case box == nil || len(who) == 0:
		return
	case len(who) == 1:
		work = box.Workspace(who[0])
	default:
		work = box.WorkspaceOf(who[0], who[1])
	}
	at = work
}

func main() {
	if err := connect(); err != nil {
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
			Who  []string
			Args args
		}
		if err := json.Unmarshal(line, &ask); err != nil {
			panic(err)
		}
		choose(ask.Who)
		ctx, cancel := context.WithCancel(context.Background())
		if ask.Args.Deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, seconds(ask.Args.Deadline))
		}
		r, err := ops[ask.Op](ctx, ask.Args)
		cancel()
		if err != nil {
			r = failed(err)
		}
		say(r)
	}
}
