package browser

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain: the test program plays the browser: it notes how it was called.
func TestMain(m *testing.M) {
	if file := os.Getenv("TROUPE_TEST_RECORD"); file != "" {
		os.Exit(play(file))
	}
	os.Exit(m.Run())
}

func play(file string) int {
	note := append(slices.Clone(os.Args[1:]), "BROWSER="+os.Getenv("BROWSER"))
	if err := os.WriteFile(file, []byte(strings.Join(note, "\n")), 0o600); err != nil {
		return 3
	}
	if os.Getenv("TROUPE_TEST_FAIL") != "" {
		return 4
	}
	return 0
}

// recorder makes BROWSER this program, and returns a function for what was noted.
func recorder(t *testing.T) func() []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "argv")
	t.Setenv("TROUPE_TEST_RECORD", file)
	t.Setenv("BROWSER", self)
	return func() []string {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(data), "\n")
	}
}

// What is opened arrives as one argument, exactly as it was shown.
func TestOpen(t *testing.T) {
	for _, url := range []string{
		"https://example.com/",
		"https://example.com/$(id);a&b?x=%60id%60&y='z'",
		"https://example.com/a%20b?state=%22x%22&redirect_uri=https://a.example/cb#f",
		"http://127.0.0.1:8080/callback?a=1&b=2",
	} {
		recorded := recorder(t)
		if err := Open(t.Context(), url); err != nil {
			t.Errorf("Open(%q): %v", url, err)
		}
		if got, want := recorded(), []string{url, "BROWSER="}; !slices.Equal(got, want) {
			t.Errorf("Open(%q): the program got %q, want %q", url, got, want)
		}
	}
}

// Nothing is started for what is not an address as it was shown (SEC-11, SECA-15, URL-16).
func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{
		"", "-h", "--version", "example.com", "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "vscode://x",
		"http://example.com/", "https://a@example.com/", "https://example.com/ --flag", "https://example.com/\n", "https://example.com/\x00",
		"$(touch x)", "`touch x`", "; touch x", "| touch x", "https://example.com/`id`", "https://example.com/\"; touch x; \"", "https://example.com\\@evil.example/",
		"HTTPS://example.com/", "https://Example.com/", "https://example.com", "https://münchen.example.com/", "https://0x7f.1/",
		"calc.exe", `C:\Windows\System32\calc.exe`, `\\evil.example\share\x.exe`, "ms-settings:", "smb://evil.example/x",
	} {
		recorded := recorder(t)
		if err := Open(t.Context(), url); !errors.Is(err, ErrRefused) {
			t.Errorf("Open(%q): got error %v, want %v", url, err, ErrRefused)
		}
		if got := recorded(); got != nil {
			t.Errorf("Open(%q): a program was started with %q", url, got)
		}
	}
}

func TestOpenFails(t *testing.T) {
	recorded := recorder(t)
	t.Setenv("TROUPE_TEST_FAIL", "1")
	if err := Open(t.Context(), "https://example.com/"); !errors.As(err, new(*exec.ExitError)) || !errors.Is(err, ErrNoBrowser) {
		t.Errorf("Open: got error %v, want that of the program, and ErrNoBrowser", err)
	}
	if recorded() == nil {
		t.Error("the program was not started")
	}

	recorded = recorder(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("over")
	cancel(cause)
	if err := Open(ctx, "https://example.com/"); !errors.Is(err, cause) {
		t.Errorf("Open: got error %v, want %v", err, cause)
	}
	if got := recorded(); got != nil {
		t.Errorf("a program was started with %q after the end", got)
	}
	if err := start(t.Context(), []string{filepath.Join(t.TempDir(), "none")}, time.Second); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start of a program that is not there: got error %v", err)
	}
}

func TestCommand(t *testing.T) {
	const url = "https://example.com/"
	all := func(string) bool { return true }
	only := func(names ...string) func(string) bool {
		return func(s string) bool { return slices.Contains(names, s) }
	}
	list := strings.Join([]string{"lynx", "w3m"}, string(filepath.ListSeparator))
	tests := []struct {
		name, goos, browser string
		there               func(string) bool
		want                []string // nil: there is none
	}{
		{"linux", "linux", "", all, []string{"/bin/xdg-open", url}},
		{"another unix", "freebsd", "", all, []string{"/bin/xdg-open", url}},
		{"mac", "darwin", "", all, []string{"/bin//usr/bin/open", url}},
		{"windows", "windows", "", all, []string{`/bin/C:\Windows\System32\rundll32.exe`, "url.dll,FileProtocolHandler", url}},
		{"nothing", "linux", "", only(), nil},
		{"the user's", "linux", "firefox", all, []string{"/bin/firefox", url}},
		{"the second of a list", "linux", list, only("w3m"), []string{"/bin/w3m", url}},
		{"none of a list", "linux", list, only("xdg-open"), []string{"/bin/xdg-open", url}},
		// A program, not a command line.
		{"arguments", "linux", "firefox -new-tab %s", only("firefox", "xdg-open"), []string{"/bin/xdg-open", url}},
		{"a shell's line", "linux", "sh -c 'touch x'", only("sh", "touch"), nil},
	}
	for _, tt := range tests {
		if strings.Contains(tt.browser, ":") && runtime.GOOS == "windows" {
			continue
		}
		env := map[string]string{"BROWSER": tt.browser, "SystemRoot": `C:\Windows`}
		look := func(name string) (string, error) {
			if !tt.there(name) {
				return "", exec.ErrNotFound
			}
			return "/bin/" + name, nil
		}
		got, err := command(tt.goos, func(name string) string { return env[name] }, look, url)
		if !slices.Equal(got, tt.want) || (tt.want == nil) != errors.Is(err, ErrNoBrowser) {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}
