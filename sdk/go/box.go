package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const readyPause = 200 * time.Millisecond

// Box is a client of `sallyport box`: many identities, each with a workspace of its own. Goroutines
// may share it.
type Box struct{ *remote }

// visible tells whether text can be the value of one header, and stays what it is there.
func visible(text string) bool {
	return text != "" && !strings.ContainsAny(text, controls+" ")
}

// NewBox makes a client of the daemon at http://host:port, https://host:port or unix:/path. The key
// opens every identity's workspace: keep it on your own servers. It doesn't connect yet.
func NewBox(address, key string, options ...Option) (*Box, error) {
	if !visible(key) {
		return nil, errors.New("sandbox: a key must be visible text without blanks")
	}
	r, err := newRemote(address, options)
	if err != nil {
		return nil, err
	}
	r.header = http.Header{"Authorization": {"Bearer " + key}}
	return &Box{r}, nil
}

// Workspace is an identity's workspace. A name is 1 to 256 bytes of visible text without blanks;
// with another every call fails. It asks nothing yet.
func (b *Box) Workspace(identity string) *Workspace {
	return b.workspace(map[string]string{"X-Runbox-Identity": identity})
}

// WorkspaceOf is the workspace of a tenant's user: another one than any identity's.
func (b *Box) WorkspaceOf(tenant, user string) *Workspace {
	return b.workspace(map[string]string{"X-Runbox-Tenant": tenant, "X-Runbox-User": user})
}

func (b *Box) workspace(names map[string]string) *Workspace {
	r := *b.remote
	r.header = b.header.Clone()
	for field, name := range names {
		if !visible(name) {
			r.broken = errors.New("sandbox: an identity must be visible text without blanks")
		}
		r.header.Set(field, name)
	}
	return &Workspace{place{remote: &r, at: boxAddresses{}}}
}

// Capabilities is what a box offers.
type Capabilities struct {
	Name    string
	Version string
	Mode    string
	Limits  map[string]int64 // bytes, or milliseconds where the name ends in "_ms"
	Layers  []string         // of confinement, that are in force
	Routes  []string
}

// Capabilities asks for the box's version, limits, layers of confinement and routes.
func (b *Box) Capabilities(ctx context.Context) (*Capabilities, error) {
	resp, err := b.ask(ctx, http.MethodGet, "/v1/capabilities", nil, 0, nil)
	if err != nil {
		return nil, err
	}
	var found Capabilities
	if err := readJSON(resp, &found); err != nil {
		return nil, err
	}
	if found.Version == "" || found.Limits == nil || found.Layers == nil || found.Routes == nil {
		return nil, errLacks
	}
	return &found, nil
}

// Metrics are counters in Prometheus's text format.
func (b *Box) Metrics(ctx context.Context) (string, error) {
	resp, err := b.ask(ctx, http.MethodGet, "/metrics", nil, 0, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if !isType(resp, "text/plain") {
		return "", errors.New("sandbox: the answer is no text")
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	return string(text), nil
}

// Health is "ok"; "draining" while the daemon shuts down.
func (b *Box) Health(ctx context.Context) (string, error) { return b.status(ctx, "/healthz") }

// Ready tells whether commands can be run: the box has just run one, or tried to.
func (b *Box) Ready(ctx context.Context) (bool, error) {
	word, err := b.status(ctx, "/ready")
	return word == "ready", err
}

// WaitReady asks until the box is ready, also while nobody listens yet. The context bounds it.
func (b *Box) WaitReady(ctx context.Context) error {
	for {
		ready, err := b.Ready(ctx)
		if ready {
			return nil
		}
		var e *Error
		if errors.As(err, &e) && e.Status != http.StatusServiceUnavailable {
			return err
		}
		if pause(ctx, readyPause, readyPause) != nil {
			if err == nil {
				return fmt.Errorf("sandbox: the box is not ready: %w", ctx.Err())
			}
			return fmt.Errorf("sandbox: the box is not ready (%v): %w", err, ctx.Err())
		}
	}
}
