package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxSocketPath bounds the path of a socket: systems have room for 104 to 108 bytes.
const maxSocketPath = 100

// suffix is that of a socket's file name; before it is the process's id.
const suffix = ".sock"

// Dir is the folder of the sockets of the processes that share a store: one below a state folder, or one among the
// temporary files, named after it, if its path is too long for a socket. Processes of other stores have other folders,
// so none is found, shown or woken as one of this store. Store names the store: the path of its file, or another text
// that no path is.
func Dir(state, store string) string {
	name := sha256.Sum256([]byte(samePath(store)))
	dir := filepath.Join(state, "sockets", hex.EncodeToString(name[:8]))
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if len(dir)+len("/1234567890")+len(suffix) <= maxSocketPath {
		return dir
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(os.TempDir(), "troupe-"+hex.EncodeToString(sum[:8]))
}

// samePath is the path by which all processes name the file, whichever way and from wherever they were told of it.
func samePath(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil { // the file is not there yet
		return filepath.Join(dir, filepath.Base(file))
	}
	return file
}

// own makes dir a folder that only this user can enter, or says why that fails.
func own(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkDir(dir, true)
}

// checkDir refuses a folder that is a link, or another user's; with tighten it takes the
// permissions of others from the user's own.
func checkDir(dir string, tighten bool) error {
	info, err := os.Lstat(dir) // a link is not followed: another user may have put it there
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case !ownedByUs(info):
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 == 0 || !hasModes:
		return nil
	case tighten:
		return os.Chmod(dir, 0o700)
	}
	return fmt.Errorf("%s is open to other users: its mode is %v, want 0700", dir, info.Mode().Perm())
}

// pidOf is the process in the name of a socket's file.
func pidOf(name string) (int, bool) {
	pid, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), suffix))
	return pid, err == nil && pid > 0 && strings.HasSuffix(name, suffix)
}
