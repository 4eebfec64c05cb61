package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// LoopbackHook is a script in every bundle. Node loads it with --import before a
// program whose servers would listen on every interface.
const LoopbackHook = "loopback.mjs"

//go:embed loopback.mjs
var loopback []byte

// ImportURL returns the URL of a script in the folder of a bundle, for node --import.
func ImportURL(dir, script string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, script))}).String()
}

// ErrNoNode says that Node is not here and how to get it.
var ErrNoNode = errors.New("node and npm are missing: install Node 20 or newer (Debian: apt-get install nodejs npm)")

// Bundle is a set of Node packages that is installed as a whole.
type Bundle struct {
	Name           string // of the folder, with a hash behind it
	Manifest, Lock []byte // package.json and package-lock.json
	// Scripts are files of ours that lie beside node_modules, by name, so that
	// their imports find the packages.
	Scripts map[string][]byte
}

// files returns everything that is written before npm runs.
func (b *Bundle) files() map[string][]byte {
	files := map[string][]byte{"package.json": b.Manifest, "package-lock.json": b.Lock, LoopbackHook: loopback}
	for name, data := range b.Scripts {
		files[name] = data
	}
	return files
}

// hash changes with every byte of the bundle.
func (b *Bundle) hash() string {
	files := b.files()
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%s %d\n%s", name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// installTime bounds one installation.
const installTime = 5 * time.Minute

// Install returns the folder in the user's cache that holds the bundle's
// node_modules, running npm ci if it is not there yet; only that needs the
// network. The folder is made under another name and then renamed, so that it is
// whole or not there, also when several processes install at once.
func Install(ctx context.Context, b Bundle) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "troupe", b.Name+"-"+b.hash())
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", ErrNoNode
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	defer os.RemoveAll(work)
	for name, data := range b.files() {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			return "", fmt.Errorf("writing %s: %w", name, err)
		}
	}
	if err := npmCI(ctx, npm, work); err != nil {
		return "", err
	}
	if err := os.Rename(work, dir); err != nil {
		if _, there := os.Stat(dir); there == nil {
			return dir, nil // another process was quicker
		}
		return "", fmt.Errorf("moving the packages into the cache: %w", err)
	}
	return dir, nil
}

// npmCI installs exactly what the lock file of dir says. No package runs a script.
func npmCI(ctx context.Context, npm, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci, which needs the network once: %w\n%s", err, out.Bytes())
	}
	return nil
}
