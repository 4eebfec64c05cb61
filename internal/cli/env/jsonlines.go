package env

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// jsonLines makes lines of JSON of what is written to stderr, as --log-format json wants
// it: records of the log pass as they are, and every other write becomes a record.
type jsonLines struct {
	mu  sync.Mutex
	w   io.Writer
	log *slog.Logger
}

func NewJSONLines(w io.Writer) *jsonLines {
	return &jsonLines{w: w, log: slog.New(slog.NewJSONHandler(w, nil))}
}

// ErrorPrefix begins what the program ends with.
const ErrorPrefix = "troupe: "

// Write implements [io.Writer].
func (j *jsonLines) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if bytes.HasPrefix(b, []byte("{")) && json.Valid(b) {
		return j.w.Write(b)
	}
	text := strings.TrimSpace(string(b))
	switch rest, failed := strings.CutPrefix(text, ErrorPrefix); {
	case text == "":
	case failed:
		j.log.Error(rest)
	default:
		j.log.Info(text)
	}
	return len(b), nil
}

// WantsJSON reports whether a command line asks for a log of JSON. It is looked for before
// the line is read as a whole: what is wrong in that is a record, too.
func WantsJSON(args []string) bool {
	format := os.Getenv(EnvName("log-format"))
	for i, a := range args {
		if a == "--" {
			break
		}
		if value, ok := strings.CutPrefix(a, "--log-format="); ok {
			format = value
		} else if a == "--log-format" && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format == "json"
}
