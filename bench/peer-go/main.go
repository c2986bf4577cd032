// The daemon's peer in the benchmark: the same routes as somebody would write them with Go's standard
// library: exec.Command, buffers with a cap, whole files. No confinement, no limits beyond that; it
// trusts everybody and is started by bench/ alone, on 127.0.0.1.
//
// usage: peer FOLDER SHELL; prints the port.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const maxOutput = 1 << 20

type capped struct {
	buf       bytes.Buffer
	truncated bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := maxOutput - c.buf.Len()
	if room < len(p) {
		c.truncated = true
		c.buf.Write(p[:max(room, 0)])
	} else {
		c.buf.Write(p)
	}
	return len(p), nil
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

type server struct {
	folder, shell string
	locks         sync.Map // of identities: one command at a time in each folder, as the daemon has it
}

// Its own folder for each identity, where one is named.
func (s *server) home(r *http.Request) string {
	id := r.Header.Get("X-Runbox-Identity")
	if id == "" {
		return s.folder
	}
	dir := filepath.Join(s.folder, "id-"+filepath.Base(id))
	_ = os.MkdirAll(dir, 0o755)
	return dir
}

func (s *server) execute(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Command string `json:"command"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	dir := s.home(r)
	lock, _ := s.locks.LoadOrStore(dir, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	began := time.Now()
	cmd := exec.CommandContext(r.Context(), s.shell, "-c", body.Command)
	cmd.Dir = dir
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		stream(w, cmd)
		return
	}
	var stdout, stderr capped
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"stdout": strings.ToValidUTF8(stdout.buf.String(), "\uFFFD"), "stdout_truncated": stdout.truncated,
		"stderr": strings.ToValidUTF8(stderr.buf.String(), "\uFFFD"), "stderr_truncated": stderr.truncated,
		"exit_code": cmd.ProcessState.ExitCode(), "duration_ms": time.Since(began).Milliseconds(),
	})
}

// An event a line, each sent at once.
func stream(w http.ResponseWriter, cmd *exec.Cmd) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		data, _ := json.Marshal(map[string]string{"data": lines.Text() + "\n"})
		fmt.Fprintf(w, "event: stdout\ndata: %s\n\n", data)
		w.(http.Flusher).Flush()
	}
	_ = cmd.Wait()
	fmt.Fprintf(w, "event: exit\ndata: {\"exit_code\":%d}\n\n", cmd.ProcessState.ExitCode())
}

func (s *server) list(w http.ResponseWriter, name string) {
	entries, err := os.ReadDir(name)
	if err != nil {
		answer(w, http.StatusNotFound, map[string]string{"error": err.Error()})
		return
	}
	list := []map[string]any{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		list = append(list, map[string]any{"name": e.Name(), "size": info.Size(), "mtime": info.ModTime(), "mode": info.Mode()})
	}
	answer(w, http.StatusOK, map[string]any{"entries": list})
}

func (s *server) files(w http.ResponseWriter, r *http.Request) {
	name := filepath.Join(s.folder, filepath.Clean("/"+strings.TrimPrefix(r.URL.Path, "/files")))
	switch r.Method {
	case http.MethodGet:
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			s.list(w, name)
			return
		}
		data, err := os.ReadFile(name)
		if err != nil {
			answer(w, http.StatusNotFound, map[string]string{"error": err.Error()})
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data)
	case http.MethodPut:
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(name, data, 0o644)
		}
		if err != nil {
			answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
			return
		}
		answer(w, http.StatusOK, map[string]any{"size": len(data)})
	case http.MethodDelete:
		if err := os.Remove(name); err != nil {
			answer(w, http.StatusNotFound, map[string]string{"error": err.Error()})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func main() {
	s := &server{folder: os.Args[1], shell: os.Args[2]}
	mux := http.NewServeMux()
	mux.HandleFunc("/execute", s.execute)
	mux.HandleFunc("/v1/exec", s.execute)
	mux.HandleFunc("/files/", s.files)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	_ = http.Serve(l, mux)
}
