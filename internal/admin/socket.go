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

// maxSocketPath is how long the path of a socket may be: systems have room for 104
// to 108 bytes.
const maxSocketPath = 100

// suffix is that of a socket's file name; before it is the process's id.
const suffix = ".sock"

// Dir is where the sockets are that belong to a state folder: a folder in it, or where
// its path is too long for a socket one among the temporary files, named after it.
func Dir(state string) string {
	dir := filepath.Join(state, "sockets")
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if len(dir)+len("/1234567890")+len(suffix) <= maxSocketPath {
		return dir
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(os.TempDir(), "troupe-"+hex.EncodeToString(sum[:8]))
}

// own makes dir a folder that nobody else can enter, or says why it is none.
func own(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkDir(dir, true)
}

// checkDir refuses a folder that is a link, or somebody else's; with tighten it takes
// away what others may do in one that is ours.
func checkDir(dir string, tighten bool) error {
	info, err := os.Lstat(dir) // a link is not followed: somebody else may have put it there
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

// pidOf is the process that a socket's file name tells.
func pidOf(name string) (int, bool) {
	pid, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), suffix))
	return pid, err == nil && pid > 0 && strings.HasSuffix(name, suffix)
}
