// startedwith.go: what a run was started with, as its journal keeps it, so that "runs resume" and the like go on
// with the same servers, model and policies. It has no secrets, and is no consent: what it names is
// started if that was allowed, and is the same today.

package setup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/shellwords"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// startedWith is what a run was started with.
type startedWith struct {
	Program string              `json:"program"` // recordedBy
	User    string              `json:"user"`
	Folder  string              `json:"folder"`           // the working folder
	Config  string              `json:"config,omitempty"` // the file that was named
	Flags   map[string][]string `json:"flags,omitempty"`  // the values of those that were given, by name
	Omitted []string            `json:"omitted,omitempty"`
	Files   []string            `json:"files,omitempty"` // of --mcp-config
	Servers []startedServer     `json:"servers,omitempty"`
}

// recordedBy tells the record of this program from those of others.
const recordedBy = "troupe"

// startedServer is one of the servers.
type startedServer struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"` // that defines it; empty of one of --mcp
	Hash string `json:"hash"`           // of its definition
	// Command is the value of --mcp without its name. Hidden says that what looks like a secret is left
	// out of it.
	Command string `json:"command,omitempty"`
	Hidden  bool   `json:"hidden,omitzero"`
}

// recordedFlags are the flags that are recorded as they are given.
var recordedFlags = []string{"model", "approve", "yes", "thinking", "system", "tool", "no-tool", "price", "server", "trust", "sampling", "protocol"}

// together are flags that say the same: one of them that is given takes the place of all.
var together = map[string][]string{"approve": {"yes"}, "yes": {"approve"}}

// maxFlag bounds the values of one flag, in bytes. A longer one has to be given again.
const maxFlag = 16 << 10

// startedWith returns the record of the flags. The servers are those that they choose.
func (f *Flags) startedWith(e *env.Env, servers []mcpclient.Server) (json.RawMessage, error) {
	if f.set == nil {
		return nil, nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the working folder: %w", err)
	}
	w := startedWith{Program: recordedBy, User: env.UserName(), Folder: folder, Config: absolute(folder, named(e)), Flags: make(map[string][]string)}
	for _, name := range recordedFlags {
		flag := f.flag(name)
		values := valuesOf(flag)
		switch {
		case flag == nil || flag.Value.String() == flag.DefValue:
		case len(strings.Join(values, "")) > maxFlag:
			w.Omitted = append(w.Omitted, name)
		default:
			w.Flags[name] = values
		}
	}
	for _, file := range f.Files {
		w.Files = append(w.Files, absolute(folder, file))
	}
	for i := range servers {
		s := startedServer{Name: servers[i].Name, File: servers[i].File, Hash: definitionOf(&servers[i])}
		if s.File == "" {
			words := wordsOf(&servers[i])
			shown := hide(words)
			s.Command, s.Hidden = shellwords.Join(shown), !slices.Equal(shown, words)
		}
		w.Servers = append(w.Servers, s)
	}
	return jsonx.Marshal(w)
}

// wordsOf are those of a --mcp.
func wordsOf(s *mcpclient.Server) []string {
	if s.URL != "" {
		return []string{s.URL}
	}
	return append([]string{s.Command}, s.Args...)
}

// definitionOf is the hash of how a server is defined.
func definitionOf(s *mcpclient.Server) string {
	if s.File != "" {
		return s.Hash
	}
	sum := sha256.Sum256([]byte(shellwords.Join(wordsOf(s))))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// named is the configuration file that a flag or a variable names.
func named(e *env.Env) string { return cmp.Or(e.ConfigPath, os.Getenv("TROUPE_CONFIG")) }

func absolute(folder, file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(folder, file)
}

// flag finds a flag by the name that records use; nil for one that the command does not have.
func (f *Flags) flag(name string) *pflag.Flag {
	if name == "protocol" {
		name = cmp.Or(f.ProtocolFlag, name)
	}
	return f.set.Lookup(name)
}

func valuesOf(flag *pflag.Flag) []string {
	if flag == nil {
		return nil
	}
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}

// given reports whether the command line itself has a flag, or one that says the same.
func (f *Flags) given(e *env.Env, name string) bool {
	for _, name := range append([]string{name}, together[name]...) {
		if flag := f.flag(name); flag != nil && flag.Changed && !e.FromEnv[flag.Name] {
			return true
		}
	}
	return false
}

// reset gives a flag the values of a record; none are its default.
func reset(flag *pflag.Flag, values []string) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	return flag.Value.Set(append(slices.Clone(values), flag.DefValue)[0])
}

// Recall fills in what a run was started with where the command line does not say it: the agent, and what else its
// journal has of this program. The process works in the folder of the run then. Nothing is open yet but
// the store, whose file does not change.
func (f *Flags) Recall(ctx context.Context, e *env.Env, s store.Store, run *store.Run) error {
	state, err := runlog.Fold(ctx, s, run.ID)
	if err != nil {
		return err
	}
	file, err := e.StoreFile()
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return fmt.Errorf("finding the store: %w", err)
	}
	var w startedWith
	if len(state.With) > 0 && jsonx.Unmarshal(state.With, &w) != nil {
		w = startedWith{} // another program's
	}
	if w.Program == recordedBy {
		if err := f.recall(e, run.ID, &w); err != nil {
			return err
		}
	}
	if now, err := e.StoreFile(); err != nil || now != file { // it stays the same
		e.StorePath = file
	}
	if !f.given(e, "agent") {
		if f.Agent = run.Agent; f.Agent == config.MainAgent {
			f.Agent = ""
		}
	}
	settings, err := e.Config()
	if err != nil {
		return err
	}
	if _, err := settings.AgentNamed(f.Agent); err != nil && !f.given(e, "agent") {
		return env.Usagef("the run %s is one of the agent %q, which is not defined here: name its configuration with --config FILE, or another agent with --agent", run.ID, run.Agent)
	}
	return nil
}

// recall is Recall for a run of this program.
func (f *Flags) recall(e *env.Env, run string, w *startedWith) error {
	for _, name := range w.Omitted {
		if !f.given(e, name) {
			return env.Usagef("the run %s was started with a --%s that is too long to be kept: give it again", run, name)
		}
	}
	mine, err := f.recallServers(run, w)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the working folder: %w", err)
	}
	if w.Folder != here {
		e.ConfigPath = absolute(here, named(e))
		for i, file := range f.Files {
			f.Files[i] = absolute(here, file)
		}
		f.typedIn = here
		switch err := os.Chdir(w.Folder); {
		case err == nil:
			e.Note("the run was started in %s, and goes on there", env.Plain(w.Folder))
		case slices.ContainsFunc(mine, func(s startedServer) bool { return !IsURL(s.Command) }):
			return env.Usagef("the run %s was started in a folder that cannot be used: %w\nGive its servers again to go on here: %s", run, err, flagsOf(mine))
		}
	}
	if w.Config != "" && !f.given(e, "config") {
		e.ConfigPath = w.Config
	}
	e.Reload()
	for _, name := range recordedFlags {
		values, ok := w.Flags[name]
		for _, other := range together[name] {
			_, of := w.Flags[other]
			ok = ok || of
		}
		if flag := f.flag(name); flag != nil && ok && !f.given(e, name) {
			if err := reset(flag, values); err != nil {
				return fmt.Errorf("the run %s was started with --%s: %w", run, name, err)
			}
		}
	}
	var commands []string
	for _, s := range mine {
		commands = append(commands, s.Name+"="+s.Command)
	}
	f.Commands = append(commands, f.Commands...)
	f.recalled = recalledServers{all: w.Servers, commands: len(commands), trust: !f.given(e, "trust") && len(w.Flags["trust"]) > 0}
	if !f.given(e, "mcp-config") && len(w.Files) > 0 {
		f.Files, f.recalled.files = w.Files, true
	}
	return nil
}

// recallServers returns the servers of --mcp that the command line does not name again. One that a secret was left out
// of is not guessed at.
func (f *Flags) recallServers(run string, w *startedWith) (mine []startedServer, err error) {
	var again []string
	for _, line := range f.Commands {
		s, err := ServerOf(line)
		if err != nil {
			return nil, err
		}
		again = append(again, s.Name)
	}
	var lost []startedServer
	for _, s := range w.Servers {
		switch {
		case s.File != "" || slices.Contains(again, s.Name):
		case s.Hidden:
			lost = append(lost, s)
		default:
			mine = append(mine, s)
		}
	}
	if len(lost) > 0 {
		return nil, env.Usagef("the run %s was started with servers whose secrets are not kept: give them again, whole: %s", run, flagsOf(lost))
	}
	if who := env.UserName(); len(mine) > 0 && w.User != who {
		return nil, env.Usagef("the run %s was started by %s, whose commands are not run for %s: give its servers again if you want them: %s", run, w.User, who, flagsOf(mine))
	}
	return mine, nil
}

// flagsOf writes servers as flags.
func flagsOf(all []startedServer) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = "--mcp " + shellwords.Join([]string{s.Name + "=" + env.Plain(s.Command)})
	}
	return strings.Join(words, " ")
}

// errOtherNow refuses a server of a file that the run was started with.
var errOtherNow = errors.New("its definition is not the one that the run was started with: name its file again with --mcp-config to allow it")

// recalledServers are those that a run was started with which goes on.
type recalledServers struct {
	all      []startedServer
	commands int  // the first of the Commands are recalled
	files    bool // the Files are
	trust    bool // what is trusted is
}

// knows reports whether a server was there when the run was started, with the same definition.
func (r *recalledServers) knows(def *mcpclient.Server) bool {
	hash := definitionOf(def)
	return hash != "" && slices.ContainsFunc(r.all, func(s startedServer) bool {
		return s.File == def.File && s.Name == def.Name && (s.Hash == hash || s.Hash == def.EarlierHash) // as an earlier version recorded it
	})
}

// hidden takes the place of a secret.
const hidden = "…"

// keys are words that are nothing but a key, a token or the like: long, and without a separator.
var keys = regexp.MustCompile(`[A-Za-z0-9+]{20,}`)

// hide leaves out of the words of a command, or of an address, what looks like a secret: what follows
// --token and the like, is assigned to such a name, or has the form of a key. Of an address that is its user, and the values of its query.
func hide(words []string) []string {
	shown := slices.Clone(words)
	secret := false // the word before says that this one is
	for i, word := range words {
		name, value, assigned := strings.Cut(word, "=")
		bare := strings.TrimLeft(name, "-")
		switch {
		case secret && !strings.HasPrefix(word, "-"):
			shown[i] = hidden
		case IsURL(word):
			shown[i] = hideAddress(word)
		case assigned && value != "" && form.LooksSecret(bare):
			shown[i] = name + "=" + hidden
		default:
			shown[i] = hideKeys(word)
		}
		secret = !assigned && bare != word && form.LooksSecret(bare)
	}
	return shown
}

// hideKeys leaves out what has the form of a key. A path has none.
func hideKeys(word string) string {
	word = runfile.RedactText(word)
	if strings.HasPrefix(word, "/") || strings.HasPrefix(word, ".") || strings.HasPrefix(word, "~") {
		return word
	}
	return keys.ReplaceAllStringFunc(word, func(text string) string {
		digits := 0
		for _, r := range text {
			if r >= '0' && r <= '9' {
				digits++
			}
		}
		if digits < 3 || digits == len(text) {
			return text
		}
		return hidden
	})
}

func hideAddress(word string) string {
	base, query, _ := strings.Cut(word, "?")
	u, err := url.Parse(word)
	switch {
	case err != nil || u.User != nil:
		return hidden
	case strings.Contains(query, "="):
		return hideKeys(base) + "?" + hidden
	}
	return hideKeys(word)
}
