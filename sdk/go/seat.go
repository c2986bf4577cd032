package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// Seat is a client of `sallyport seat`. Goroutines may share it.
type Seat struct {
	base   string
	client *http.Client
}

// Option is for NewSeat.
type Option func(*http.Transport)

// WithTLS is for https, where the daemon's certificate isn't one that the system trusts.
func WithTLS(config *tls.Config) Option {
	return func(t *http.Transport) { t.TLSClientConfig = config.Clone() }
}

// NewSeat makes a client of the daemon at http://host:port, https://host:port or unix:/path. It
// doesn't connect yet.
func NewSeat(address string, options ...Option) (*Seat, error) {
	// A connection is never used twice, so that there is nothing to retry: net/http repeats requests
	// on connections that the server closed meanwhile.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		ExpectContinueTimeout: 5 * time.Second}
	for _, o := range options {
		o(transport)
	}
	if path := strings.TrimPrefix(address, "unix:"); path != address {
		if !strings.HasPrefix(path, "/") {
			return nil, errors.New("sandbox: a unix socket needs an absolute path: unix:/path")
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		address = "http://localhost"
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("sandbox: the address must be http://host:port, https://host:port or unix:/path")
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Seat{base: u.Scheme + "://" + u.Host, client: client}, nil
}

// ask sends a request; an answer that is an error is returned as one.
func (s *Seat) ask(ctx context.Context, method, target string, body io.Reader, size int64,
	header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+target, body)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	req.ContentLength = size
	if size == 0 {
		req.Body = http.NoBody
	}
	req.GetBody = nil // sent once
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if resp.StatusCode >= 400 {
		return nil, failure(resp)
	}
	return resp, nil
}

func isType(resp *http.Response, want string) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == want
}

var errLacks = errors.New("sandbox: the answer lacks a member")

// readJSON reads all of an answer, which must be one value.
func readJSON(resp *http.Response, into interface{}) error {
	defer resp.Body.Close()
	if !isType(resp, "application/json") {
		return errors.New("sandbox: the answer is not JSON")
	}
	d := json.NewDecoder(resp.Body)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("sandbox: the answer: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("sandbox: the answer has more than one value")
	}
	return nil
}

// Command is what Execute, Stream and Start run.
type Command struct {
	Line    string            // for the shell
	Timeout time.Duration     // after which the daemon kills it; 0 is the daemon's default
	Env     map[string]string // added to the command's environment
	Dir     string            // relative to the workspace, or absolute and below it
	Stdin   *string           // nil is /dev/null
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

func (s *Seat) post(ctx context.Context, c Command, accept string) (*http.Response, error) {
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {accept}}
	return s.ask(ctx, http.MethodPost, "/execute", bytes.NewReader(body), int64(len(body)), header)
}

// Execute runs one command, and returns when it has ended. A command that fails or runs into its
// timeout is a Result, not an error.
func (s *Seat) Execute(ctx context.Context, c Command) (*Result, error) {
	resp, err := s.post(ctx, c, "application/json")
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
		TimedOut: found.TimedOut, OOMKilled: found.OOMKilled, Duration: time.Duration(found.DurationMS) * time.Millisecond,
		StdoutTruncated: found.StdoutTruncated, StderrTruncated: found.StderrTruncated,
	}, nil
}

// ended is what a result and an exit event share.
type ended struct {
	ExitCode   *int   `json:"exit_code"`
	Signal     string `json:"signal"`
	TimedOut   bool   `json:"timed_out"`
	OOMKilled  bool   `json:"oom_killed"`
	DurationMS int64  `json:"duration_ms"`
}

// Health is "ok"; "draining" while the daemon shuts down.
func (s *Seat) Health(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/healthz", nil)
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return "", failure(resp)
	}
	var found struct{ Status string }
	if err := readJSON(resp, &found); err != nil {
		return "", err
	}
	if found.Status == "" {
		return "", errLacks
	}
	return found.Status, nil
}
