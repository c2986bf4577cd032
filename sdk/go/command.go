package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"
)

// Command is what Execute, Stream and Start run.
type Command struct {
	Line    string            // for the shell
	Timeout time.Duration     // after which the daemon kills it; 0 is the daemon's default
	Env     map[string]string // added to the command's environment
	Dir     string            // relative to the workspace, or absolute and below it
	Stdin   *string           // nil is /dev/null
	// Files are written before it runs, by a box only: a Seat refuses them.
	Files []File
	// BusyWait is how long to ask again for, while the daemon answers "busy"; not with Files.
	BusyWait time.Duration
}

// Text is a pointer to s, for Command.Stdin.
func Text(s string) *string { return &s }

// Result is a command that has ended, and its output.
type Result struct {
	Stdout          string
	Stderr          string
	ExitCode        int
	Signal          string // "" where none ended it
	TimedOut        bool
	OOMKilled       bool // the kernel ended something of it for want of memory
	QuotaExceeded   bool // the box ended it, as it made its workspace too large
	Duration        time.Duration
	StdoutTruncated bool
	StderrTruncated bool
}

func (c Command) body() ([]byte, error) {
	if c.Timeout < 0 || (c.Timeout > 0 && c.Timeout < time.Millisecond) {
		return nil, errors.New("sandbox: a timeout must be at least a millisecond")
	}
	texts := []string{c.Line, c.Dir}
	if c.Stdin != nil {
		texts = append(texts, *c.Stdin)
	}
	for k, v := range c.Env {
		texts = append(texts, k, v)
	}
	for _, t := range texts {
		if !utf8.ValidString(t) { // encoding/json would change it in silence
			return nil, errors.New("sandbox: a command's texts must be UTF-8")
		}
	}
	return json.Marshal(struct {
		Command   string            `json:"command"`
		TimeoutMS int64             `json:"timeout_ms,omitempty"`
		Env       map[string]string `json:"env,omitempty"`
		Dir       string            `json:"cwd,omitempty"`
		Stdin     *string           `json:"stdin,omitempty"`
	}{c.Line, c.Timeout.Milliseconds(), c.Env, c.Dir, c.Stdin})
}

// post runs a command. It asks again only where the daemon said "busy" and the caller wanted that.
func (p *place) post(ctx context.Context, c Command, accept string) (*http.Response, error) {
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {accept}}
	if len(c.Files) > 0 {
		return p.postFiles(ctx, c, body, header)
	}
	until := time.Now().Add(c.BusyWait)
	for {
		resp, err := p.ask(ctx, http.MethodPost, p.at.exec(), bytes.NewReader(body), int64(len(body)), header)
		left := time.Until(until)
		if err == nil || left <= 0 || !IsCode(err, "busy") {
			return resp, err
		}
		var busy *Error
		errors.As(err, &busy)
		if err := pause(ctx, busy.RetryAfter, left); err != nil {
			return nil, err
		}
	}
}

// pause waits for the time asked for, at most so long; a second where none was asked for.
func pause(ctx context.Context, asked, most time.Duration) error {
	if asked <= 0 {
		asked = time.Second
	}
	if asked > most {
		asked = most
	}
	timer := time.NewTimer(asked)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *place) postFiles(ctx context.Context, c Command, body []byte, header http.Header) (*http.Response, error) {
	if !p.at.takesFiles() {
		return nil, errors.New("sandbox: a seat takes no files with a command")
	}
	if c.BusyWait > 0 {
		return nil, errors.New("sandbox: a command with files can't be sent twice: leave out BusyWait")
	}
	return p.postForm(ctx, p.at.exec(), body, c.Files, header)
}

// Execute runs one command, and returns when it has ended. A command that fails or runs into its
// timeout is a Result, not an error.
func (p *place) Execute(ctx context.Context, c Command) (*Result, error) {
	resp, err := p.post(ctx, c, "application/json")
	if err != nil {
		return nil, err
	}
	var found struct {
		Stdout          *string `json:"stdout"`
		Stderr          *string `json:"stderr"`
		StdoutTruncated bool    `json:"stdout_truncated"`
		StderrTruncated bool    `json:"stderr_truncated"`
		ended
	}
	if err := readJSON(resp, &found); err != nil {
		return nil, err
	}
	if found.Stdout == nil || found.Stderr == nil || found.ExitCode == nil {
		return nil, errLacks
	}
	return &Result{
		Stdout: *found.Stdout, Stderr: *found.Stderr, ExitCode: *found.ExitCode, Signal: found.Signal,
		TimedOut: found.TimedOut, OOMKilled: found.OOMKilled, QuotaExceeded: found.QuotaExceeded,
		Duration:        time.Duration(found.DurationMS) * time.Millisecond,
		StdoutTruncated: found.StdoutTruncated, StderrTruncated: found.StderrTruncated,
	}, nil
}

// ended is what a result and an exit event share.
type ended struct {
	ExitCode      *int   `json:"exit_code"`
	Signal        string `json:"signal"`
	TimedOut      bool   `json:"timed_out"`
	OOMKilled     bool   `json:"oom_killed"`
	QuotaExceeded bool   `json:"quota_exceeded"`
	DurationMS    int64  `json:"duration_ms"`
}
