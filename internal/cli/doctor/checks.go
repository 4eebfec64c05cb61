package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/configcmd"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/mcp"
	"github.com/troupe-dev/troupe/internal/cli/models"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/diskspace"
	"github.com/troupe-dev/troupe/internal/modelconfig"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func checkConfig(ctx context.Context, d *doctor) []check {
	s, err := d.env.Config()
	if err == nil {
		_, err = d.env.Logger()
	}
	if err != nil {
		return failed("config", err.Error(), "edit the file at that line; troupe config path says which files count")
	}
	c := check{Area: "config", Status: checkOK, Text: "no file; see troupe config path", Detail: map[string]any{"files": append([]string{}, s.Files...)}}
	if len(s.Files) > 0 {
		c.Text = strings.Join(s.Files, ", ")
	}
	out := []check{c}
	for i := range s.Notes {
		out = append(out, check{Area: "config", Status: checkWarning, Text: s.Notes[i].Error(), Fix: "move it to your own file, or name the project's with --config"})
	}
	_, problems := configcmd.Problems(ctx, d.env, cmp.Or(d.env.ConfigPath, os.Getenv("TROUPE_CONFIG")))
	for _, text := range problems {
		out = append(out, check{Area: "config", Status: checkFailed, Text: text, code: env.ExitUsage, Fix: "edit the file, or set the variable; troupe config check looks again"})
	}
	return out
}

// checkState checks that other users of the computer cannot read the state folder.
func checkState(_ context.Context, d *doctor) []check {
	dir, err := env.StateDir()
	if err != nil {
		return failed("state", err.Error(), "set HOME or XDG_STATE_HOME")
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent("state", dir)
	case err != nil:
		return failed("state", err.Error(), "make it a folder of yours, or set XDG_STATE_HOME")
	case !info.IsDir():
		return failed("state", dir+" is not a folder", "move it away, or set XDG_STATE_HOME")
	}
	out := fine("state", dir)
	if runtime.GOOS == "windows" { // permissions are something else there
		return out
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		out[0] = check{Area: "state", Status: checkWarning, Text: fmt.Sprintf("%s can be opened by others (%v)", dir, mode), Fix: "chmod 700 " + dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return append(out, check{Area: "state", Status: checkFailed, Text: err.Error(), Fix: "chmod 700 " + dir, code: env.ExitUsage})
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			path := filepath.Join(dir, e.Name())
			out = append(out, check{Area: "state", Name: e.Name(), Status: checkWarning, Text: fmt.Sprintf("others may open it (%v)", info.Mode().Perm()), Fix: "chmod 600 " + path})
		}
	}
	return out
}

// checkStore opens the store, reads it and writes to it.
func checkStore(ctx context.Context, d *doctor) []check {
	if d.env.NoStore {
		return fine("store", "in memory, as --no-store says")
	}
	path, err := d.env.StoreFile()
	if err != nil {
		return failed("store", err.Error(), "name a file with --store")
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return checkNewStore(path)
	}
	if err != nil {
		return failed("store", err.Error(), "name another file with --store")
	}
	s, err := d.env.OpenStore()
	if err != nil {
		fix := "move the file away, or name another with --store"
		if errors.Is(err, store.ErrTooNew) {
			fix = "take a newer troupe: this one is too old for the file"
		}
		return failed("store", err.Error(), fix)
	}
	defer s.Close()
	c := check{Area: "store", Status: checkOK, Text: fmt.Sprintf("%s, %s", path, env.Size(info.Size()))}
	if db, ok := s.(*sqlite.Store); ok {
		version, err := db.Schema(ctx)
		if err != nil {
			return failed("store", err.Error(), "move the file away, or name another with --store")
		}
		c.Text += fmt.Sprintf(", schema %d", version)
		c.Detail = map[string]any{"path": path, "bytes": info.Size(), "schema": version}
	}
	if _, err := s.Runs(ctx, store.Query{Limit: 1}); err != nil {
		return failed("store", err.Error(), "move the file away, or name another with --store")
	}
	// Nothing has this name; what is looked at is whether the file can be written.
	if err := s.Revoke(ctx, "troupe doctor", "none", "none"); err != nil && !errors.Is(err, store.ErrNotFound) {
		return failed("store", "it cannot be written: "+err.Error(), "make room, or make the file and its folder writable: "+filepath.Dir(path))
	}
	return []check{c}
}

// checkNewStore looks whether the store can be made, and makes nothing.
func checkNewStore(path string) []check {
	dir := filepath.Dir(path)
	for {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		switch {
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%s is not a folder", dir)
		case err == nil:
			err = writable(dir)
		}
		if err != nil {
			return failed("store", fmt.Sprintf("%s cannot be made: %v", path, err), "make the folder writable, or name a file elsewhere with --store")
		}
		return absent("store", path)
	}
}

// writable tries to make a file, and takes it away again.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".troupe-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Bounds of the room on a disk.
const (
	littleRoom = 1 << 30
	noRoom     = 64 << 20
)

// checkDisk looks at the room where the store is.
func checkDisk(_ context.Context, d *doctor) []check {
	path, err := d.env.StoreFile()
	if err != nil || d.env.NoStore {
		return nil
	}
	dir := filepath.Dir(path)
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	free, err := diskspace.Free(dir)
	if err != nil {
		return []check{{Area: "disk", Status: checkWarning, Text: fmt.Sprintf("how much room %s has is not known: %v", dir, err)}}
	}
	c := check{Area: "disk", Status: checkOK, Text: fmt.Sprintf("%s free at %s", env.Size(free), dir), Detail: map[string]any{"path": dir, "free": free}}
	switch {
	case free < noRoom:
		c.Status, c.Fix, c.code = checkFailed, "make room there, or name a file elsewhere with --store: runs that cannot be recorded end", env.ExitUsage
	case free < littleRoom:
		c.Status, c.Fix = checkWarning, "make room there, or name a file elsewhere with --store"
	}
	return []check{c}
}

// checkClock holds the clock against what is known to be past: leases and schedules go
// by it.
func checkClock(ctx context.Context, d *doctor) []check {
	now := time.Now()
	c := check{Area: "clock", Status: checkOK, Text: now.Format(time.RFC3339)}
	past, what := built(), "this program was built"
	if path, err := d.env.StoreFile(); err == nil && !d.env.NoStore {
		if _, err := os.Stat(path); err == nil {
			if newest := newestRun(ctx, d.env); newest.After(past) {
				past, what = newest, "the newest run was recorded"
			}
		}
	}
	if past.Sub(now) > time.Minute {
		c.Status, c.code = checkFailed, env.ExitUsage
		c.Text = fmt.Sprintf("it says %s, and %s at %s", now.Format(time.RFC3339), what, past.Format(time.RFC3339))
		c.Fix = "set the clock, or let the system do it (NTP): leases of runs and schedules go by it"
	}
	return []check{c}
}

// newestRun is when the newest run of the store was changed; zero where there is none.
func newestRun(ctx context.Context, e *env.Env) time.Time {
	s, err := e.OpenStore()
	if err != nil {
		return time.Time{}
	}
	defer s.Close()
	runs, err := s.Runs(ctx, store.Query{Limit: 1})
	if err != nil || len(runs) == 0 {
		return time.Time{}
	}
	return runs[0].Updated
}

// built is the time of the commit that the program was built from; zero if not known.
func built() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			t, err := time.Parse(time.RFC3339, s.Value)
			if err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

// checkModels asks all providers, and looks for the model that a run would use.
func checkModels(ctx context.Context, d *doctor) []check {
	s, err := d.env.Config()
	if err != nil {
		return nil // it is said there
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.each, env.ErrTimeout)
	defer cancel()
	list := models.AllModels(ctx, s)
	var out []check
	by := make(map[string][]models.ModelRow)
	for _, m := range list.Models {
		by[m.Provider] = append(by[m.Provider], m)
	}
	for _, provider := range s.Backends.Providers() {
		if models := by[provider.Name]; len(models) > 0 {
			out = append(out, check{Area: "models", Name: provider.Name, Status: checkOK, Text: modelsText(models), Detail: models})
		}
	}
	for _, u := range list.Unreachable {
		c := check{Area: "models", Name: u.Provider, Status: checkWarning, Text: u.Reason, Fix: u.Fix}
		if u.Server != "" {
			c.Text = u.Server + ": " + u.Reason
		}
		out = append(out, c)
	}
	return append(out, checkDefault(ctx, s, &list))
}

func modelsText(models []models.ModelRow) string {
	text := fmt.Sprintf("%d models at %s", len(models), models[0].Server)
	if len(models) == 1 {
		text = "one model at " + models[0].Server
	}
	for i, m := range models {
		if i == 5 {
			return text + fmt.Sprintf("\nand %d more: troupe models ls", len(models)-i)
		}
		text += "\n" + m.Name
		if m.Context > 0 {
			text += fmt.Sprintf(", %d tokens", m.Context)
		}
		if len(m.Capabilities) > 0 {
			text += ", " + strings.Join(m.Capabilities, " ")
		}
	}
	return text
}

// checkDefault looks at the model that a run uses where it names none.
func checkDefault(ctx context.Context, s *env.Settings, list *models.ModelList) check {
	c := check{Area: "models", Name: "default", Status: checkOK, code: env.ExitUnreachable}
	name := cmp.Or(os.Getenv("TROUPE_MODEL"), s.Models.Default)
	full, err := name, error(nil)
	if name == "" {
		full, err = s.Backends.Find(ctx)
	} else {
		full, err = s.Backends.Resolve(ctx, name)
	}
	switch {
	case errors.Is(err, modelconfig.ErrNone):
		c.Status, c.Text, c.Fix = checkFailed, "there is no model", setup.NoModel
		return c
	case err != nil:
		c.Status, c.Text, c.Fix = checkFailed, fmt.Sprintf("%s: %v", name, err), "name one of those that troupe models ls shows, with -m or models.default"
		return c
	}
	c.Text = full
	for _, m := range list.Models {
		if m.Name == full || m.Name == full+":latest" {
			return c
		}
	}
	provider, model, _ := strings.Cut(full, "/")
	for _, u := range list.Unreachable {
		switch {
		case u.Provider != provider:
		case u.Kind == models.Missing: // the provider has no list of its models
			c.Text = full + ", which its provider neither lists nor denies"
			return c
		default:
			c.Status, c.Text, c.Fix = checkFailed, fmt.Sprintf("%s: %s does not answer", full, provider), u.Fix
			return c
		}
	}
	c.Status, c.Text = checkFailed, fmt.Sprintf("%s is not among the models that %s has", full, provider)
	if c.Fix = "name one of those that troupe models ls shows"; provider == "ollama" {
		c.Fix = "get it: troupe models pull " + model
	}
	return c
}

// checkServers tries all servers at once, each as "mcp test" does.
func checkServers(ctx context.Context, d *doctor) []check {
	servers, err := setup.ServersOf(d.env, d.f)
	if err != nil {
		return failed("server", err.Error(), "edit the file at that line")
	}
	if len(servers) == 0 {
		return fine("server", "none is configured; see troupe mcp add --help")
	}
	s, err := d.env.OpenStore()
	if err != nil {
		return nil // it is said there, and whether they are approved is not known
	}
	defer s.Close()
	out := make([]check, len(servers))
	setup.AFewAtATime(len(servers), func(i int) { out[i] = d.checkServer(ctx, s, servers[i]) })
	return out
}

func (d *doctor) checkServer(ctx context.Context, s store.Store, def mcpclient.Server) check {
	c := check{Area: "server", Name: def.Name, code: env.ExitUnreachable}
	r := &mcp.TestReport{Server: def.Name}
	if err := d.f.MayStart(ctx, s, &def); err != nil {
		c.Status, c.Text, c.Fix = checkWarning, "it waits for your approval: "+env.Plain(setup.Reach(&def)), mcp.FixOf(err, &def)
		if env.ExitCode(err) != env.ExitDenied {
			c.Status, c.Text, c.code = checkFailed, err.Error(), env.ExitUsage
		}
		return c
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.each, env.ErrTimeout)
	defer cancel()
	mcp.TryServer(ctx, d.env, s, r, def)
	r.OK, c.Detail = r.Err == nil, r
	if r.Err != nil {
		r.Fix = mcp.FixOf(r.Err, &def)
		c.Status, c.Text, c.Fix = checkFailed, r.Err.Error(), r.Fix
		if r.Stderr != "" {
			c.Text += "\nits last words: " + r.Stderr
		}
		return c
	}
	c.Status, c.Text = checkOK, fmt.Sprintf("MCP %s, %s era", r.Revision, r.Era)
	for _, s := range r.Steps {
		if s.Name == "tools" || s.Name == "resources" || s.Name == "prompts" {
			c.Text += fmt.Sprintf(", %s %s", s.Said, s.Name)
		}
	}
	return c
}
