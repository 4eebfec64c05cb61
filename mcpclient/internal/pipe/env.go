package pipe

import (
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/conn"
)

// inherited are the variables that a server inherits: those that programs need to work, and
// no secrets (STDIO-08). It inherits LC_* too.
var inherited = []string{
	"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
}

// inheritedWindows are those of Windows.
var inheritedWindows = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES",
	"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
}

// environment returns the variables of a server's process, sorted: the inherited part of
// this program's, changed by the server's definition.
func environment(ours []string, own map[string]*string) []string {
	env := make(map[string]string)
	for _, kv := range ours {
		name, value, ok := strings.Cut(kv, "=")
		if ok && mayInherit(name) {
			env[name] = value
		}
	}
	for name, value := range own {
		if value == nil {
			delete(env, name)
		} else {
			env[name] = *value
		}
	}
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func mayInherit(name string) bool {
	if runtime.GOOS == "windows" {
		name = strings.ToUpper(name)
		if slices.Contains(inheritedWindows, name) {
			return true
		}
	}
	return slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_")
}

// lookUp finds the program in the PATH that its process will have. The connection does not
// retry a missing program by itself.
func lookUp(s *Command) (string, error) {
	dirs := s.Env["PATH"]
	if dirs == nil || filepath.Base(s.Path) != s.Path {
		found, err := exec.LookPath(s.Path)
		if err != nil && s.Dir != "" && filepath.Base(s.Path) != s.Path && !filepath.IsAbs(s.Path) {
			found, err = exec.LookPath(filepath.Join(s.Dir, s.Path))
		}
		if err != nil {
			return "", conn.Permanent(err)
		}
		return filepath.Abs(found)
	}
	for _, dir := range filepath.SplitList(*dirs) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, s.Path)); err == nil {
			return found, nil
		}
	}
	return "", conn.Permanent(&exec.Error{Name: s.Path, Err: exec.ErrNotFound})
}
