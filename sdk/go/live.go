package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const lineMax = 1 << 20

// Output is some output of a running command, in whole characters.
type Output struct {
	Stream string // "stdout" or "stderr"
	Text   string
}

// Exit is how a command ended.
type Exit struct {
	ExitCode      int
	Signal        string // "" where none ended it
	TimedOut      bool
	OOMKilled     bool // the kernel ended something of it for want of memory
	QuotaExceeded bool // the box ended it, as it made its workspace too large
	Duration      time.Duration
	StdoutBytes   int64
	StderrBytes   int64
}

// Live is a running command's output as it comes. Not reading it stops the command, once the
// buffers between are full; closing it, or the end of its context, kills the command. One goroutine
// reads; any may close.
type Live struct {
	body  io.ReadCloser
	lines *bufio.Reader
	exit  *Exit
	err   error  // what ended it: io.EOF after the exit
	rest  string // of an event that Read has begun
}

// Start runs one command, and returns once it runs.
func (p *place) Start(ctx context.Context, c Command) (*Live, error) {
	resp, err := p.post(ctx, c, "text/event-stream")
	if err != nil {
		return nil, err
	}
	if !isType(resp, "text/event-stream") {
		resp.Body.Close()
		return nil, errors.New("sandbox: the daemon doesn't stream output")
	}
	return NewLive(resp.Body), nil
}

// NewLive reads events as a daemon sends them: for a Backend of one's own. It closes events.
func NewLive(events io.ReadCloser) *Live {
	return &Live{body: events, lines: bufio.NewReaderSize(events, 64<<10)}
}

// Stream runs one command and calls fn with its output as it comes. An error of fn kills the
// command, and is returned.
func (p *place) Stream(ctx context.Context, c Command, fn func(Output) error) (*Exit, error) {
	live, err := p.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	defer live.Close()
	for {
		out, err := live.Next()
		if err == io.EOF {
			return live.Exit(), nil
		}
		if err == nil {
			err = fn(out)
		}
		if err != nil {
			return nil, err
		}
	}
}

// Next is the next output; io.EOF once the command has ended, and Exit is there.
func (l *Live) Next() (Output, error) {
	for l.err == nil {
		name, data, err := l.event()
		if err != nil {
			l.fail(err)
			break
		}
		switch name {
		case "stdout", "stderr":
			var found struct{ Text *string }
			if err := json.Unmarshal(data, &found); err != nil || found.Text == nil {
				l.fail(errors.New("sandbox: an event that can't be read"))
				break
			}
			return Output{Stream: name, Text: *found.Text}, nil
		case "exit":
			l.ended(data)
		case "error":
			e := Error{Status: 200}
			var found struct{ Error, Code string }
			if err := json.Unmarshal(data, &found); err != nil {
				l.fail(errors.New("sandbox: an event that can't be read"))
				break
			}
			e.Code, e.Message = found.Code, found.Error
			l.fail(&e)
		}
	}
	return Output{}, l.err
}

func (l *Live) fail(err error) {
	l.err = err
	l.body.Close()
}

func (l *Live) ended(data []byte) {
	var found struct {
		ended
		StdoutBytes int64 `json:"stdout_bytes"`
		StderrBytes int64 `json:"stderr_bytes"`
	}
	if err := json.Unmarshal(data, &found); err != nil || found.ExitCode == nil {
		l.fail(errors.New("sandbox: an event that can't be read"))
		return
	}
	l.exit = &Exit{ExitCode: *found.ExitCode, Signal: found.Signal, TimedOut: found.TimedOut, OOMKilled: found.OOMKilled,
		QuotaExceeded: found.QuotaExceeded, Duration: time.Duration(found.DurationMS) * time.Millisecond,
		StdoutBytes: found.StdoutBytes, StderrBytes: found.StderrBytes}
	l.fail(io.EOF)
}

// event is the next event's name and data; both are empty for a comment.
func (l *Live) event() (name string, data []byte, err error) {
	for {
		line, err := l.line()
		if err != nil {
			return "", nil, err
		}
		if line == "" {
			return name, data, nil
		}
		switch {
		case strings.HasPrefix(line, "event:"):
			name = strings.TrimPrefix(line[len("event:"):], " ")
		case strings.HasPrefix(line, "data:"):
			data = []byte(strings.TrimPrefix(line[len("data:"):], " "))
		}
	}
}

func (l *Live) line() (string, error) {
	var whole []byte
	for {
		part, err := l.lines.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case err == nil:
			return string(whole[:len(whole)-1]), nil
		case err == bufio.ErrBufferFull && len(whole) <= lineMax:
			continue
		case err == bufio.ErrBufferFull:
			return "", errors.New("sandbox: a line of the stream is too long")
		case err == io.EOF:
			return "", fmt.Errorf("sandbox: the stream ended before the command did: %w", io.ErrUnexpectedEOF)
		default:
			return "", fmt.Errorf("sandbox: %w", err)
		}
	}
}

// Read makes a Live an io.Reader of both streams' text; io.EOF is the command's end.
func (l *Live) Read(p []byte) (int, error) {
	for l.rest == "" {
		if len(p) == 0 {
			return 0, nil
		}
		out, err := l.Next()
		if err != nil {
			return 0, err
		}
		l.rest = out.Text
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Exit is how the command ended; nil before it has, or where that isn't known.
func (l *Live) Exit() *Exit { return l.exit }

// Close kills the command, if it still runs.
func (l *Live) Close() error { return l.body.Close() }
