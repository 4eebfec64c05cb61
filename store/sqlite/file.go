package sqlite

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/store"
)

// prepare makes path absolute and creates the file, empty, and its folders, if
// they are missing. SQLite gives the -wal and -shm files the file's permissions.
func prepare(path string, log *slog.Logger) (string, error) {
	switch {
	case path == "":
		return "", &store.InvalidError{Field: "path", Reason: "is empty"}
	case path == ":memory:":
		return "", &store.InvalidError{Field: "path", Reason: "is :memory:; use package memstore"}
	case strings.HasPrefix(path, "file:"):
		return "", &store.InvalidError{Field: "path", Reason: "is a URI; give the plain path of a file"}
	case strings.ContainsRune(path, 0):
		return "", &store.InvalidError{Field: "path", Reason: "has a NUL"}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	// On Windows modes say nothing: the folder's access list, which the file inherits, does.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		log.Warn("other users may open the store", "path", path, "mode", info.Mode().Perm())
	}
	return path, nil
}

// writerCache is the page cache of the connection that writes, in KiB.
const writerCache = 4000

func writerDSN(path string, o Options) string {
	sync := "FULL"
	if o.Synchronous == Normal {
		sync = "NORMAL"
	}
	return dsn(path, o, url.Values{
		"mode":         {"rw"},
		"_synchronous": {sync},
		"_txlock":      {"immediate"},
	}, writerCache)
}

func readerDSN(path string, o Options) string {
	return dsn(path, o, url.Values{"mode": {"ro"}, "_query_only": {"1"}}, 0)
}

// dsn escapes the path, so that no character of it can be taken for a setting
// (SECA-55).
func dsn(path string, o Options, v url.Values, cacheKiB int) string {
	v.Set("_busy_timeout", strconv.FormatInt(max(o.BusyTimeout.Milliseconds(), 1), 10))
	o.library.Settings(v, cacheKiB)
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/…; SQLite drops the slash
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: v.Encode()}).String()
}
