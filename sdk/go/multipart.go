package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// File is one of several that are written: its path, and what is read into it.
type File struct {
	Path string
	Body io.Reader // nil is empty; it is not closed
	Size int64     // of Body, where that can't be known; 0 sends the request in chunks
}

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// form is a body of an optional part "request" and files, read one after the other as it is sent.
func form(request []byte, files []File) (body io.Reader, size int64, contentType string, err error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, 0, "", fmt.Errorf("sandbox: %w", err)
	}
	boundary := hex.EncodeToString(random[:])
	var parts []io.Reader
	known := true
	add := func(text string, r io.Reader, n int64) {
		parts = append(parts, strings.NewReader(text))
		size += int64(len(text))
		if r != nil {
			parts = append(parts, r)
			size += n
			known = known && n >= 0
		}
	}
	start := "--" + boundary + "\r\nContent-Disposition: form-data; name="
	if request != nil {
		add(start+"\"request\"\r\nContent-Type: application/json\r\n\r\n", bytes.NewReader(request), int64(len(request)))
		add("\r\n", nil, 0)
	}
	for _, f := range files {
		if !utf8.ValidString(f.Path) || strings.ContainsAny(f.Path, controls) {
			return nil, 0, "", errors.New("sandbox: a file's path must be UTF-8 without control characters")
		}
		n := f.Size
		if n == 0 {
			n = sizeOf(f.Body)
		}
		add(start+"\"file\"; filename=\""+quoter.Replace(f.Path)+"\"\r\n\r\n", f.Body, n)
		add("\r\n", nil, 0)
	}
	add("--"+boundary+"--\r\n", nil, 0)
	if !known {
		size = -1
	}
	return io.MultiReader(parts...), size, "multipart/form-data; boundary=" + boundary, nil
}

const controls = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18" +
	"\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"

func (p *place) postForm(ctx context.Context, target string, request []byte, files []File,
	header http.Header) (*http.Response, error) {
	body, size, contentType, err := form(request, files)
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", contentType)
	if size < 0 || size > expectOver {
		header.Set("Expect", "100-continue") // a refusal then costs no bytes
	}
	return p.ask(ctx, http.MethodPost, target, body, size, header)
}
