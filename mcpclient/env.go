package mcpclient

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/conn"
)

// inherited are the variables that a server gets from us: what a program needs to
// work, and no secrets (STDIO-08). LC_* comes on top.
var inherited = []string{
	"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
}

// inheritedWindows are those of Windows.
var inheritedWindows = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES",
	"SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
}

// environment is what a server's process gets: the inherited part of ours, changed
// by its definition. It is sorted.
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

// lookUp finds the program in the PATH that its process will have. What is not
// there is not tried again by itself.
func lookUp(s *Server) (string, error) {
	dirs := s.Env["PATH"]
	if dirs == nil || filepath.Base(s.Command) != s.Command {
		found, err := exec.LookPath(s.Command)
		if err != nil && s.Dir != "" && filepath.Base(s.Command) != s.Command && !filepath.IsAbs(s.Command) {
			found, err = exec.LookPath(filepath.Join(s.Dir, s.Command))
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
		if found, err := exec.LookPath(filepath.Join(dir, s.Command)); err == nil {
			return found, nil
		}
	}
	return "", conn.Permanent(&exec.Error{Name: s.Command, Err: exec.ErrNotFound})
}

func ourEnvironment() []string { return os.Environ() }
