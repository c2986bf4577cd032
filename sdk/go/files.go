package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const expectOver = 1 << 20

// Range is a part of a file: Length bytes from Start on; Length 0 is all from there.
type Range struct {
	Start, Length int64
}

func (r Range) header() (http.Header, error) {
	switch {
	case r.Start < 0 || r.Length < 0:
		return nil, errors.New("sandbox: a range must not be negative")
	case r.Length > 0:
		return http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", r.Start, r.Start+r.Length-1)}}, nil
	case r.Start > 0:
		return http.Header{"Range": {fmt.Sprintf("bytes=%d-", r.Start)}}, nil
	}
	return nil, nil
}

// is tells whether the answer is this part of a file, or as much of it as there is.
func (r Range) is(resp *http.Response) bool {
	var first, last, total int64
	field := resp.Header.Get("Content-Range")
	if _, err := fmt.Sscanf(field, "bytes %d-%d/%d", &first, &last, &total); err != nil ||
		resp.StatusCode != http.StatusPartialContent || field != fmt.Sprintf("bytes %d-%d/%d", first, last, total) {
		return false
	}
	until := total
	if r.Length > 0 && r.Length < total-r.Start {
		until = r.Start + r.Length
	}
	return first == r.Start && last+1 == until && resp.ContentLength == until-r.Start
}

// Body is a file's or an archive's bytes as they come. A Read that finds the connection ended too
// early returns io.ErrUnexpectedEOF.
type Body struct {
	io.ReadCloser
	Size int64  // -1 of an archive
	ETag string // "" of an archive

	made func() string // of an archive: what its trailer says
}

// Whole tells, of an archive that was read to its end, whether nothing was left out of it. It is
// not known before, and not where a proxy took the answer's trailer away.
func (b *Body) Whole() (whole, known bool) {
	if b.made == nil {
		return false, false
	}
	made := b.made()
	return made == "whole", made == "whole" || made == "partial"
}

// Open reads a file as a stream. Close the body.
func (p *place) Open(ctx context.Context, path string, part Range) (*Body, error) {
	header, err := part.header()
	if err != nil {
		return nil, err
	}
	good := []int{http.StatusOK}
	if header != nil {
		good = append(good, http.StatusPartialContent)
	}
	resp, err := p.ask(ctx, http.MethodGet, p.at.file(path), nil, 0, header, good...)
	if err != nil {
		return nil, err
	}
	if header != nil && !part.is(resp) {
		resp.Body.Close()
		return nil, errors.New("sandbox: the answer is not the range asked for")
	}
	if isType(resp, "application/json") { // a seat lists a folder on the same path
		resp.Body.Close()
		return nil, &Error{Code: "is_a_directory", Message: "The path is a folder.", Status: resp.StatusCode}
	}
	if !isType(resp, "application/octet-stream") {
		resp.Body.Close()
		return nil, errors.New("sandbox: the answer is no file")
	}
	return &Body{ReadCloser: resp.Body, Size: resp.ContentLength, ETag: resp.Header.Get("ETag")}, nil
}

// Read is a file's bytes, all in memory.
func (p *place) Read(ctx context.Context, path string, part Range) ([]byte, error) {
	body, err := p.Open(ctx, path, part)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return data, nil
}

// Download writes a file's bytes into w as they come, and returns how many.
func (p *place) Download(ctx context.Context, path string, w io.Writer, part Range) (int64, error) {
	body, err := p.Open(ctx, path, part)
	if err != nil {
		return 0, err
	}
	return body.copyTo(w)
}

func (b *Body) copyTo(w io.Writer) (int64, error) {
	defer b.Close()
	n, err := io.Copy(w, b)
	if err != nil {
		return n, fmt.Errorf("sandbox: %w", err)
	}
	return n, nil
}

// WriteOptions says more about a Write; the zero value is fine.
type WriteOptions struct {
	Size    int64  // of the body, where Write can't know; 0 sends it in chunks
	NewOnly bool   // nothing may be there yet
	IfMatch string // only over the file that has this entity tag, quotes included
}

// Stored is a file that was written.
type Stored struct {
	Path    string
	Size    int64
	ETag    string
	Created bool
}

// sizeOf is how many bytes body has left, -1 where that can't be known.
func sizeOf(body io.Reader) int64 {
	switch b := body.(type) {
	case nil:
		return 0
	case *bytes.Reader:
		return int64(b.Len())
	case *bytes.Buffer:
		return int64(b.Len())
	case *strings.Reader:
		return int64(b.Len())
	case *os.File:
		st, err := b.Stat()
		if err != nil || !st.Mode().IsRegular() || st.Size() == 0 { // 0: /proc too
			return -1
		}
		at, err := b.Seek(0, io.SeekCurrent)
		if err != nil || at > st.Size() {
			return -1
		}
		return st.Size() - at
	}
	return -1
}

// Write replaces a file with body's bytes, atomically; missing folders are made. It closes body if
// that is an io.Closer, as net/http does; wrap it in io.NopCloser to keep it open.
func (p *place) Write(ctx context.Context, path string, body io.Reader, o WriteOptions) (*Stored, error) {
	method, target := p.at.write(path)
	return p.store(ctx, method, target, body, o)
}

func (p *place) store(ctx context.Context, method, target string, body io.Reader, o WriteOptions) (*Stored, error) {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if o.NewOnly {
		header.Set("If-None-Match", "*")
	}
	if o.IfMatch != "" {
		header.Set("If-Match", o.IfMatch)
	}
	size := o.Size
	if size == 0 {
		size = sizeOf(body)
	}
	if size < 0 || size > expectOver {
		header.Set("Expect", "100-continue") // a refusal then costs no bytes
	}
	resp, err := p.ask(ctx, method, target, body, size, header, http.StatusOK, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	stored := Stored{ETag: resp.Header.Get("ETag"), Created: resp.StatusCode == http.StatusCreated}
	var found struct {
		Path *string
		Size *int64
	}
	if err := readJSON(resp, &found); err != nil {
		return nil, err
	}
	if found.Path == nil || found.Size == nil {
		return nil, errLacks
	}
	stored.Path, stored.Size = *found.Path, *found.Size
	return &stored, nil
}

// DeleteOptions of a removal; none is the zero value.
type DeleteOptions struct {
	Recursive       bool      // a folder with all in it
	IfMatch         string    // only the file that has this entity tag
	UnmodifiedSince time.Time // only what didn't change after that second
}

// DeletePath removes a file, a link itself, an empty folder or, if o.Recursive, any folder.
func (p *place) DeletePath(ctx context.Context, path string, o DeleteOptions) error {
	header := http.Header{}
	if o.IfMatch != "" {
		header.Set("If-Match", o.IfMatch)
	}
	if at := o.UnmodifiedSince.UTC(); !at.IsZero() {
		if at.Year() < 0 || at.Year() > 9999 { // a condition that isn't a date would be none
			return errors.New("sandbox: the time must be of a year from 0 to 9999")
		}
		header.Set("If-Unmodified-Since", at.Format(http.TimeFormat))
	}
	resp, err := p.ask(ctx, http.MethodDelete, p.at.remove(path, o.Recursive), nil, 0, header, http.StatusNoContent)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Entry is one name in a folder.
type Entry struct {
	Name  string
	Raw   string // percent-encoded, where the name isn't UTF-8
	Type  string // "file", "directory", "symlink" or "other"
	Size  int64
	Mode  string  // "0644"
	Mtime float64 // seconds since 1970
}

// Listing is a folder's names, sorted.
type Listing struct {
	Path      string
	Entries   []Entry
	Truncated bool // there were too many
}

// List is what is in a folder; "" is the workspace.
func (p *place) List(ctx context.Context, path string) (*Listing, error) {
	return p.list(ctx, p.at.folder(path, false))
}

func (p *place) list(ctx context.Context, target string) (*Listing, error) {
	resp, err := p.ask(ctx, http.MethodGet, target, nil, 0, nil)
	if err != nil {
		return nil, err
	}
	var found Listing
	if err := readJSON(resp, &found); err != nil {
		return nil, err
	}
	if found.Entries == nil {
		return nil, errLacks
	}
	return &found, nil
}

// Info is what is at a path, without its content. Size and ETag are a file's.
type Info struct {
	Path  string
	IsDir bool
	Size  int64
	ETag  string
}

// Head looks at a path without reading it.
func (p *place) Head(ctx context.Context, path string) (*Info, error) {
	resp, err := p.ask(ctx, http.MethodHead, p.at.file(path), nil, 0, nil)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusBadRequest {
		return p.headAgain(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if isType(resp, "application/json") {
		return &Info{Path: path, IsDir: true}, nil
	}
	if !isType(resp, "application/octet-stream") {
		return nil, errors.New("sandbox: the answer is neither a file nor a folder")
	}
	return &Info{Path: path, Size: resp.ContentLength, ETag: resp.Header.Get("ETag")}, nil
}

// headAgain asks with a method whose answers say why.
func (p *place) headAgain(ctx context.Context, path string) (*Info, error) {
	body, err := p.Open(ctx, path, Range{})
	if IsCode(err, "is_directory") {
		return &Info{Path: path, IsDir: true}, nil
	}
	if err != nil {
		return nil, err
	}
	body.Close()
	return &Info{Path: path, Size: body.Size, ETag: body.ETag}, nil
}
