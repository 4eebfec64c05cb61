package vault

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/troupe-dev/troupe/internal/seal"
)

// KeyVariable is the environment variable that may hold the keys, in place of a file.
const KeyVariable = "TROUPE_KEY"

// maxKeys bounds the keys of one variable or file: the first seals, the others open.
const maxKeys = 16

// Keys returns the keys of [KeyVariable], whose value is given, or if that is empty those of
// the file at path, which is made, with one random key, where there is none. Keys are base64,
// of 32 bytes, one a line, or separated by commas; the first seals, the others still open.
// Only the owner may be allowed to read the file.
func Keys(variable, path string) ([][]byte, error) {
	if variable != "" {
		keys, err := parse(variable)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", KeyVariable, err)
		}
		return keys, nil
	}
	raw, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = makeKeyFile(path)
	}
	if err != nil {
		return nil, err
	}
	keys, err := parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("the key file %s: %w", path, err)
	}
	return keys, nil
}

func parse(text string) (keys [][]byte, err error) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' || r == ' ' || r == '\t' }) {
		raw, err := base64.StdEncoding.DecodeString(word)
		if err != nil || len(raw) != seal.KeySize {
			return nil, fmt.Errorf("key %d is not base64 of %d bytes; make one with: head -c %d /dev/urandom | base64", len(keys)+1, seal.KeySize, seal.KeySize)
		}
		if keys = append(keys, raw); len(keys) > maxKeys {
			return nil, fmt.Errorf("more than %d keys", maxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it holds no key")
	}
	return keys, nil
}

// maxKeyFile bounds the key file, in bytes.
const maxKeyFile = 4 << 10

// readKeyFile reads the file unless others may read it too (SECA-36).
func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the key file %s is not a regular file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others may read the key file %s (its mode is %#o): chmod 600 it, and if they may have read it, replace the key and log in anew", path, info.Mode().Perm())
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("the key file %s has %d bytes, at most %d are allowed", path, info.Size(), maxKeyFile)
	}
	raw := make([]byte, info.Size())
	n, err := f.ReadAt(raw, 0)
	if n < len(raw) {
		return nil, fmt.Errorf("reading the key file %s: %w", path, err)
	}
	return raw, nil
}

// makeKeyFile makes the file, complete or not at all; of several processes that do at once one
// wins, and all read what it has written.
func makeKeyFile(path string) ([]byte, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the key file: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("making the key file: %w", err)
	}
	defer os.Remove(tmp.Name())
	var text bytes.Buffer
	fmt.Fprintln(&text, base64.StdEncoding.EncodeToString(seal.NewKey()))
	_, err = tmp.Write(text.Bytes())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return nil, fmt.Errorf("making the key file: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the key file: %w", err)
	}
	return readKeyFile(path)
}
