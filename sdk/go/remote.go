package sandbox

import (
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
)

// remote asks one daemon. Its answers are checked.
type remote struct {
	base   string
	client *http.Client
	header http.Header // of every request
	broken error       // why none can be sent
}

// Option is for NewSeat and NewBox.
type Option func(*http.Transport)

// WithTLS is for https, where the daemon's certificate isn't one that the system trusts.
func WithTLS(config *tls.Config) Option {
	return func(t *http.Transport) { t.TLSClientConfig = config.Clone() }
}

func newRemote(address string, options []Option) (*remote, error) {
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
	return &remote{base: u.Scheme + "://" + u.Host, client: client}, nil
}

// ask sends a request; an answer that is an error is returned as one, and so is one with a status that isn't good,
// which is no answer of the daemon's: 200 alone where none is given.
func (r *remote) ask(ctx context.Context, method, target string, body io.Reader, size int64,
	header http.Header, good ...int) (*http.Response, error) {
	if r.broken != nil {
		return nil, r.broken
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+target, body)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	req.ContentLength = size
	if size == 0 {
		req.Body = http.NoBody
	}
	req.GetBody = nil // sent once
	for _, fields := range []http.Header{r.header, header} {
		for name, values := range fields {
			req.Header[name] = values
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if resp.StatusCode >= 400 {
		return nil, failure(resp)
	}
	if err := judge(resp, good); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func judge(resp *http.Response, good []int) error {
	isGood := len(good) == 0 && resp.StatusCode == http.StatusOK
	for _, status := range good {
		isGood = isGood || status == resp.StatusCode
	}
	if !isGood {
		return fmt.Errorf("sandbox: the answer has the status %d, as none of the daemon's", resp.StatusCode)
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return errors.New("sandbox: the answer is packed, as none of the daemon's")
	}
	return nil
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

// status is the one word of an answer that a daemon gives with 200 or 503.
func (r *remote) status(ctx context.Context, target string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+target, nil)
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	if resp.StatusCode >= 400 && resp.StatusCode != http.StatusServiceUnavailable {
		return "", failure(resp)
	}
	if err := judge(resp, []int{http.StatusOK, http.StatusServiceUnavailable}); err != nil {
		resp.Body.Close()
		return "", err
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
