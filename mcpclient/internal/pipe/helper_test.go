package pipe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// helperScript writes a program of the shell.
func helperScript(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHeadersHelper(t *testing.T) {
	t.Setenv("SECRET_OF_OURS", "x")
	for name, tc := range map[string]struct{ script, args, want, err string }{
		"headers":     {`echo '{"X-Key": "'"$1"'"}'`, " 'a b'", "a b", ""},
		"no secrets":  {`echo '{"X-Key": "'"$SECRET_OF_OURS"'"}'`, "", "", ""},
		"fails":       {"echo token=abc; echo no key >&2; exit 3", "", "", "exit status 3; its last words: no key"},
		"no JSON":     {"echo token=abc", "", "", "no JSON object of texts"},
		"no texts":    {`echo '{"X-Key": 5}'`, "", "", "no JSON object of texts"},
		"too much":    {"head -c 100000 /dev/zero", "", "", "more than 64 KiB"},
		"not a shell": {`echo '{"X-Key": "'"$1"'"}'`, " $(id)", "$(id)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := HeadersHelper(helperScript(t, tc.script)+tc.args, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			got, err := f(t.Context())
			if tc.err == "" && (err != nil || got["X-Key"] != tc.want) {
				t.Errorf("headers: got %v, %v, want %q", got, err, tc.want)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "abc")) {
				t.Errorf("headers: got error %v, want %q and nothing of its output", err, tc.err)
			}
		})
	}
	if _, err := HeadersHelper(`"open`, ""); err == nil {
		t.Error("a quote that is not closed: got no error")
	}
}

func TestHeadersHelperHangs(t *testing.T) {
	f, err := HeadersHelper(helperScript(t, "exec sleep 600"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := f(ctx); !errors.Is(err, enough) {
		t.Errorf("headers: got %v, want the cause", err)
	}
}
