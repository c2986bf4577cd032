package sandbox

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Seat is a client of `sallyport seat`. Goroutines may share it.
type Seat struct{ place }

// NewSeat makes a client of the daemon at http://host:port, https://host:port or unix:/path. It
// doesn't connect yet.
func NewSeat(address string, options ...Option) (*Seat, error) {
	r, err := newRemote(address, options)
	if err != nil {
		return nil, err
	}
	return &Seat{place{remote: r, at: seatAddresses{}}}, nil
}

// Health is "ok"; "draining" while the daemon shuts down.
func (s *Seat) Health(ctx context.Context) (string, error) { return s.status(ctx, "/healthz") }

type seatAddresses struct{}

func (seatAddresses) exec() string     { return "/execute" }
func (seatAddresses) takesFiles() bool { return false }

func (seatAddresses) file(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/files/" + strings.Join(parts, "/")
}

func (a seatAddresses) folder(path string, _ bool) string {
	if path = strings.TrimRight(path, "/"); path != "" {
		path += "/" // it must be a folder
	}
	return a.file(path)
}

func (a seatAddresses) write(path string) (method, target string) {
	return http.MethodPut, a.file(path)
}

func (a seatAddresses) remove(path string, recursive bool) string {
	if recursive {
		return a.file(path) + "?recursive=true"
	}
	return a.file(path)
}
