// service.go: what "serve" and "worker" hold the definitions of their servers to, and say of them: no person is there to be
// asked, and a user who may write the files decides what the service runs.

package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// definedBefore is the kind of the records of what a service has started with.
const definedBefore = "service-server"

// keptFor is how long a service that does not start remembers its servers.
const keptFor = 365 * 24 * time.Hour

// defined is a server as a service has started with it.
type defined struct {
	Hash  string `json:"hash"`
	Shown string `json:"shown"`
}

// announce says, when a service starts, which servers it has and as what, and warns of one that is not what it was at the
// last start. Secrets that stand in files are hidden.
func (f *ServerFlags) announce(ctx context.Context, e *env.Env, s store.Store, log *slog.Logger, servers []mcpclient.Server) error {
	for i := range servers {
		def := &servers[i]
		c, err := f.Describe(ctx, s, def)
		if err != nil {
			return err
		}
		now := defined{definitionOf(def), strings.Join(def.Reach(true), "; ")}
		before := ""
		if c.Status == "pending" {
			before = ", which is not started before it is approved"
		}
		e.Note("server %s%s: %s", env.Plain(def.Name), before, env.Plain(now.Shown))
		if err := f.compare(ctx, s, log, def, &now); err != nil {
			return err
		}
	}
	return nil
}

// compare warns of a definition that has changed, and keeps it.
func (f *ServerFlags) compare(ctx context.Context, s store.Records, log *slog.Logger, def *mcpclient.Server, now *defined) error {
	if def.File == "" { // who starts the service has typed it
		return nil
	}
	owner, key := "file "+def.File, mark(def.Name)
	var before defined
	switch r, err := s.Record(ctx, definedBefore, owner, key); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return fmt.Errorf("reading what the server %s was: %w", def.Name, err)
	case jsonx.Unmarshal(r.Value, &before) == nil && before.Hash != now.Hash:
		if before.Shown == now.Shown {
			before.Shown = "the same but for what is hidden here"
		}
		log.Warn("a server is defined otherwise than at the last start", "server", def.Name, "file", def.File, "is", now.Shown, "was", before.Shown)
	}
	value, err := json.Marshal(now)
	if err == nil {
		err = s.PutRecord(ctx, store.Record{Kind: definedBefore, Owner: owner, Key: key, Value: value, Expires: time.Now().Add(keptFor)})
	}
	if err != nil { // a service starts on a full disk, too
		log.Warn("what a server is now cannot be kept for the next start", "server", def.Name, "error", err)
	}
	return nil
}

// mark is the key of a name, which may have any characters.
func mark(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// onlyOurs refuses a file that decides what a service runs and that other users of this machine may write, or put
// another one in the place of.
func onlyOurs(file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return env.Usagef("looking for %s: %w", file, err)
	}
	look := []string{path, filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		look = append(look, filepath.Dir(target))
	}
	for _, of := range look {
		info, err := os.Stat(of)
		if err != nil {
			return nil // reading it says why
		}
		if why := othersWrite(info); why != "" {
			return env.Usagef("%s decides what this service runs, and other users may write %s (%s): have it belong to the user of the service or to root, and take the right away (chmod go-w)", file, of, why)
		}
	}
	return nil
}
