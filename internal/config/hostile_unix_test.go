//go:build unix

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/internal/config"
)

// SECA-27, SECA-36: a key is read only of a file that is one, and that no other user reads.
func TestHostileKeyFiles(t *testing.T) {
	const secret = "sk-live-0123456789abcdefghij"
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"open": 0o644, "group": 0o640, "others": 0o602, "own": 0o600} {
		write(t, at(name), secret+"\n", mode)
		if err := os.Chmod(at(name), mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	write(t, at("huge"), strings.Repeat(secret, 10_000), 0o600)
	write(t, at("lines"), secret+"\r\nX-Evil: 1\n", 0o600)
	write(t, at("empty"), "\n", 0o600)
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link to open": "open", "link to own": "own", "link to itself": "link to itself", "link to device": "/dev/zero", "link to pipe": "pipe"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, ok := range map[string]bool{
		"own": true, "link to own": true, "open": false, "group": false, "others": false, "huge": false, "lines": false, "empty": false, "pipe": false,
		"link to open": false, "link to itself": false, "link to device": false, "link to pipe": false, "missing": false, ".": false,
	} {
		c, err := config.Parse(at("troupe.yaml"), fmt.Appendf(nil, "version: 1\nmodels: {providers: {x: {base_url: 'http://x.example', api_key_file: %q}}}\n", name), false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Server("x", func(string) string { return "" })
		if (err == nil) != ok || ok && s.APIKey.Reveal() != secret {
			t.Errorf("the file %q: got error %v, want success: %v", name, err, ok)
		}
		if err != nil && strings.Contains(err.Error(), secret[:12]) {
			t.Errorf("the file %q: the error shows the key: %v", name, err)
		}
	}
}
