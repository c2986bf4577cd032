package sandbox

import (
	"context"
	"io"
)

// Backend is one workspace, wherever it is: a Seat, a box's Workspace, or what a test puts in their
// place.
type Backend interface {
	Execute(ctx context.Context, c Command) (*Result, error)
	Stream(ctx context.Context, c Command, fn func(Output) error) (*Exit, error)
	Start(ctx context.Context, c Command) (*Live, error)
	Open(ctx context.Context, path string, part Range) (*Body, error)
	Read(ctx context.Context, path string, part Range) ([]byte, error)
	Download(ctx context.Context, path string, w io.Writer, part Range) (int64, error)
	Write(ctx context.Context, path string, body io.Reader, o WriteOptions) (*Stored, error)
	DeletePath(ctx context.Context, path string, o DeleteOptions) error
	List(ctx context.Context, path string) (*Listing, error)
	Head(ctx context.Context, path string) (*Info, error)
}

var (
	_ Backend = (*Seat)(nil)
	_ Backend = (*Workspace)(nil)
)

// place is what a Seat and a Workspace have in common.
type place struct {
	*remote
	at addresses
}

// addresses is where they differ: request targets.
type addresses interface {
	exec() string
	takesFiles() bool
	file(path string) string
	folder(path string, recursive bool) string
	write(path string) (method, target string)
	remove(path string, recursive bool) string
}
