package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// readFile reads at most limit bytes of a regular file, and one more if there are more. It
// looks before it opens: opening a pipe would wait.
func readFile(path string, limit int64) ([]byte, os.FileMode, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil { // of what is read, whatever was looked at
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	return data, info.Mode(), err
}

// readInside reads at most limit bytes, and one more, of a file below a folder, which no
// link leads out of.
func readInside(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// maxKey bounds the file of a key, in bytes.
const maxKey = 16 << 10

// readKey reads a file that holds nothing but a key, and that only the user may read.
func readKey(path string) (Key, error) {
	data, mode, err := readFile(path, maxKey)
	switch {
	case err != nil:
		return Key{}, err
	case runtime.GOOS != "windows" && mode.Perm()&0o077 != 0:
		return Key{}, fmt.Errorf("%s can be read or written by others (%v): chmod 600 %[1]s", path, mode.Perm())
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(data) > maxKey || !isHeader(text) {
		return Key{}, fmt.Errorf("%s does not hold one line with a key", path)
	}
	return NewKey(text), nil
}

// isHeader reports whether a text can be sent as the value of a header.
func isHeader(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// file is where a file of the configuration is.
func (p *Provider) file(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.dir, name)
}

func besideFile(file, name string) string {
	p := Provider{dir: filepath.Dir(file)}
	return p.file(name)
}
