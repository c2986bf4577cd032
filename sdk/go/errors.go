package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Error is an error that the daemon answered with.
type Error struct {
	Code       string        // for programs: "busy", "not_found", ...
	Message    string        // one sentence for people
	Status     int           // of HTTP; 200 where the error came after a stream had begun
	RetryAfter time.Duration // 0 where the daemon didn't say
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// IsCode tells whether err is, or wraps, an Error with this code.
func IsCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

const errorMax = 1 << 16

// HEAD's answers have no body to tell the code; these statuses have but one.
var headCodes = map[int]Error{
	http.StatusNotFound: {Code: "not_found", Message: "There is nothing at this path."},
	http.StatusConflict: {Code: "not_a_file", Message: "The path is no file."},
}

// failure reads the error that an answer holds, and closes it. An answer without our JSON gets
// the code "unknown".
func failure(resp *http.Response) error {
	defer resp.Body.Close()
	e := Error{Code: "unknown", Message: fmt.Sprintf("The server answered with status %d.", resp.StatusCode)}
	body, err := io.ReadAll(io.LimitReader(resp.Body, errorMax))
	if err != nil && len(body) == 0 {
		return err
	}
	var found struct{ Error, Code string }
	known, isKnown := headCodes[resp.StatusCode]
	switch {
	case json.Unmarshal(body, &found) == nil && found.Code != "":
		e.Code, e.Message = found.Code, found.Error
	case resp.Request.Method == http.MethodHead && isKnown:
		e.Code, e.Message = known.Code, known.Message
	}
	e.Status = resp.StatusCode
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return &e
}
