package sandbox

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// Workspace is one identity's workspace in a box; commands in it run one after the other. Goroutines
// may share it. Box.Workspace and Box.WorkspaceOf make one.
type Workspace struct{ place }

// PutPath is as Write, by PUT /v1/path, which never takes a body for a form.
func (w *Workspace) PutPath(ctx context.Context, path string, body io.Reader, o WriteOptions) (*Stored, error) {
	return w.store(ctx, http.MethodPut, "/v1/path?path="+url.QueryEscape(path), body, o)
}

// Placed is one file of several that were written.
type Placed struct {
	Path    string
	Size    int64
	Created bool
}

// WriteBatch writes files below a folder ("" is the workspace), all or none: none is placed before
// all bytes are there; see docs/box.md "Multipart". At most 48.
func (w *Workspace) WriteBatch(ctx context.Context, folder string, files []File) ([]Placed, error) {
	resp, err := w.postForm(ctx, "/v1/files/batch?path="+url.QueryEscape(folder), nil, files, http.Header{})
	if err != nil {
		return nil, err
	}
	var found struct{ Files []Placed }
	if err := readJSON(resp, &found); err != nil {
		return nil, err
	}
	if len(found.Files) != len(files) {
		return nil, errLacks
	}
	return found.Files, nil
}

// ListTree is all below a folder, named by the path from there, a folder before what is in it.
func (w *Workspace) ListTree(ctx context.Context, path string) (*Listing, error) {
	return w.list(ctx, w.at.folder(path, true))
}

// Archive is a folder as a pax tar, made while it is read. Close it. Its Whole tells at the end
// whether something was left out.
func (w *Workspace) Archive(ctx context.Context, path string) (*Body, error) {
	resp, err := w.ask(ctx, http.MethodGet, "/v1/archive?path="+url.QueryEscape(path), nil, 0, nil)
	if err != nil {
		return nil, err
	}
	if !isType(resp, "application/x-tar") {
		resp.Body.Close()
		return nil, errors.New("sandbox: the answer is no archive")
	}
	made := func() string { return resp.Trailer.Get("X-Runbox-Archive") }
	return &Body{ReadCloser: resp.Body, Size: -1, made: made}, nil
}

// DownloadArchive writes a folder's tar into dst as it comes, and returns how many bytes.
func (w *Workspace) DownloadArchive(ctx context.Context, path string, dst io.Writer) (int64, error) {
	body, err := w.Archive(ctx, path)
	if err != nil {
		return 0, err
	}
	return body.copyTo(dst)
}

// Usage is what a workspace takes: Bytes as du counts them. A Quota of 0 is none.
type Usage struct {
	Bytes, Entries, Quota int64
}

// Usage asks what the workspace takes, and may take.
func (w *Workspace) Usage(ctx context.Context) (*Usage, error) {
	resp, err := w.ask(ctx, http.MethodGet, "/v1/usage", nil, 0, nil)
	if err != nil {
		return nil, err
	}
	var found struct{ Bytes, Entries, Quota *int64 }
	if err := readJSON(resp, &found); err != nil {
		return nil, err
	}
	if found.Bytes == nil || found.Entries == nil || found.Quota == nil {
		return nil, errLacks
	}
	return &Usage{*found.Bytes, *found.Entries, *found.Quota}, nil
}

// DeleteWorkspace removes all that is in the workspace and ends all that runs there.
func (w *Workspace) DeleteWorkspace(ctx context.Context) error {
	resp, err := w.ask(ctx, http.MethodDelete, "/v1/workspace", nil, 0, nil, http.StatusNoContent)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

type boxAddresses struct{}

func (boxAddresses) exec() string     { return "/v1/exec" }
func (boxAddresses) takesFiles() bool { return true }

func (boxAddresses) file(path string) string { return "/v1/files?path=" + url.QueryEscape(path) }

func (boxAddresses) folder(path string, recursive bool) string {
	if recursive {
		return "/v1/list?recursive=true&path=" + url.QueryEscape(path)
	}
	return "/v1/list?path=" + url.QueryEscape(path)
}

func (a boxAddresses) write(path string) (method, target string) {
	return http.MethodPost, a.file(path)
}

func (boxAddresses) remove(path string, recursive bool) string {
	if recursive {
		return "/v1/path?recursive=true&path=" + url.QueryEscape(path)
	}
	return "/v1/path?path=" + url.QueryEscape(path)
}
