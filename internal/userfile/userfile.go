// Package userfile is the file of the users who may log in: a line "name:hash", or "name:hash:role", for
// each. A hash is of argon2id, or of bcrypt as "htpasswd -B" makes it.
package userfile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Bounds of a file.
const (
	MaxPassword = 1024 // bytes
	maxUsers    = 10_000
	maxFile     = 4 << 20 // bytes
	maxChecks   = 2       // hashes that are computed at once: each takes memory
)

// noUser is the hash for a name that the file does not have: it takes the same time, and fits no password.
const noUser = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// File is a file that is read again when it changes. It may be used from any goroutine.
type File struct {
	path   string
	read   atomic.Pointer[seen] // nil before
	checks chan struct{}        // has room for the hashes that are computed at once
}

// seen is the file as it was last read.
type seen struct {
	info os.FileInfo
	by   map[string]User
}

// Open returns a file that can be read.
func Open(path string) (*File, error) {
	f := &File{path: path, checks: make(chan struct{}, maxChecks)}
	_, _, err := f.User("")
	return f, err
}

// User returns a user by the file as it is now.
func (f *File) User(name string) (u User, ok bool, err error) {
	now, err := os.Stat(f.path)
	if err != nil {
		return u, false, fmt.Errorf("the users: %w", err)
	}
	file := f.read.Load()
	if file == nil || !os.SameFile(file.info, now) || !file.info.ModTime().Equal(now.ModTime()) || file.info.Size() != now.Size() {
		list, err := Read(f.path)
		if err != nil {
			return u, false, err
		}
		file = &seen{info: now, by: make(map[string]User, len(list))}
		for _, one := range list {
			file.by[one.Name] = one
		}
		f.read.Store(file) // several requests may read it at once: it is small
	}
	u, ok = file.by[name]
	return u, ok, nil
}

// LogIn returns a user if the password is right. A name that the file does not have takes as long as
// a wrong password. Only a few are checked at once; others wait until ctx ends.
func (f *File) LogIn(ctx context.Context, name, password string) (u User, ok bool, err error) {
	if u, ok, err = f.User(name); err != nil {
		return User{}, false, err
	}
	select {
	case f.checks <- struct{}{}:
		defer func() { <-f.checks }()
	case <-ctx.Done():
		return User{}, false, context.Cause(ctx)
	}
	fits := check(cmp.Or(u.Hash, noUser), password)
	return u, ok && fits, nil
}

// User is a line of a file.
type User struct {
	Name, Hash string
	Role       string // what the user may do in a console: one of [Roles]; empty is not said
}

// Roles are what a user may be allowed in a console; each may do what the one before it may.
var Roles = []string{"look", "answer", "operate"}

// Read reads the file unless others may read or write it too (SECA-36).
func Read(file string) ([]User, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the users: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("the users: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the users: %s is not a regular file", file)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("the users: others may read the hashes in %s (its mode is %#o): chmod 600 it", file, info.Mode().Perm())
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("the users: %w", err)
	}
	list, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("the users: %s: %w", file, err)
	}
	return list, nil
}

func parse(raw []byte) (list []User, err error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	names := make(map[string]bool)
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, ":")
		hash, role, _ := strings.Cut(rest, ":")
		switch {
		case CheckName(name) != nil:
			return nil, fmt.Errorf("line %d: %w", n, CheckName(name))
		case names[name]:
			return nil, fmt.Errorf("line %d: the user %q comes twice", n, name)
		case role != "" && !slices.Contains(Roles, role):
			return nil, fmt.Errorf("line %d: the role of the user %q is %.20q: want look, answer or operate", n, name, role)
		case !knownHash(hash):
			return nil, fmt.Errorf("line %d: the user %q has no hash of argon2id or bcrypt: make it with troupe serve users add", n, name)
		}
		names[name] = true
		if list = append(list, User{name, hash, role}); len(list) > maxUsers {
			return nil, fmt.Errorf("it has more than %d users", maxUsers)
		}
	}
	return list, nil
}

// CheckName checks a name. What shows nothing, or something else, may not be in it.
func CheckName(name string) error {
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`:#"\<>`, c) }) {
		return fmt.Errorf("the user name %.40q: want at most 100 ASCII characters without blanks, and none of : # \" \\ < >", name)
	}
	return nil
}

// argonHash is a hash in the form that the reference implementation has.
type argonHash struct {
	memory, time uint32
	threads      uint8
	salt, sum    []byte
}

// parseArgon reads a hash. Its cost is bounded: the file may be another's.
func parseArgon(text string) (h argonHash, ok bool) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v=19" {
		return h, false
	}
	n, err := fmt.Sscanf(parts[3]+"$", "m=%d,t=%d,p=%d$", &h.memory, &h.time, &h.threads)
	if err != nil || n != 3 || h.memory < 8 || h.memory > 256<<10 || h.time < 1 || h.time > 16 || h.threads < 1 || h.threads > 16 {
		return h, false
	}
	var e1, e2 error
	h.salt, e1 = base64.RawStdEncoding.DecodeString(parts[4])
	h.sum, e2 = base64.RawStdEncoding.DecodeString(parts[5])
	return h, e1 == nil && e2 == nil && len(h.salt) >= 8 && len(h.salt) <= 64 && len(h.sum) >= 16 && len(h.sum) <= 64
}

// maxBcrypt bounds the cost of a hash: beyond it one takes seconds.
const maxBcrypt = 14

func knownHash(text string) bool {
	if _, ok := parseArgon(text); ok {
		return true
	}
	cost, err := bcrypt.Cost([]byte(text))
	return err == nil && cost <= maxBcrypt
}

// check reports whether a password is that of a hash.
func check(hash, password string) bool {
	if h, ok := parseArgon(hash); ok {
		sum := argon2.IDKey([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(len(h.sum)))
		return subtle.ConstantTimeCompare(sum, h.sum) == 1
	}
	return knownHash(hash) && bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}

func hashPassword(password string) string {
	h := argonHash{memory: 19 << 10, time: 2, threads: 1, salt: make([]byte, 16)}
	_, _ = rand.Read(h.salt) // never fails
	sum := argon2.IDKey([]byte(password), h.salt, h.time, h.memory, h.threads, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", h.memory, h.time, h.threads, encode(h.salt), encode(sum))
}

// Set adds a user to a file, or gives the user another password; an empty role leaves the one there is.
// The file is made where there is none.
func Set(file, name, password, role string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if role != "" && !slices.Contains(Roles, role) {
		return fmt.Errorf("the role %.20q: want %s", role, strings.Join(Roles, ", "))
	}
	if n := len(password); n < 8 || n > MaxPassword {
		return fmt.Errorf("the password has %d bytes, want 8 to %d", n, MaxPassword)
	}
	if list, err := Read(file); err == nil && role == "" {
		if at := slices.IndexFunc(list, func(u User) bool { return u.Name == name }); at >= 0 {
			role = list[at].Role
		}
	}
	line := name + ":" + hashPassword(password)
	if role != "" {
		line += ":" + role
	}
	return edit(file, name, line)
}

// ErrNoUser is the error of a user that is not in the file.
var ErrNoUser = errors.New("there is no such user in the file")

// Remove removes a user from a file.
func Remove(file, name string) error { return edit(file, name, "") }

// edit replaces the line of a user, or adds it, or with line "" removes it. The file is
// replaced whole: a server never reads a half of it.
func edit(file, name, line string) error {
	list, err := Read(file)
	if err != nil && (line == "" || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	found := slices.ContainsFunc(list, func(one User) bool { return one.Name == name })
	var raw []byte
	if list != nil {
		if raw, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("the users: %w", err)
		}
	}
	var b bytes.Buffer
	for old := range strings.Lines(string(raw)) {
		switch old = strings.TrimSpace(old); {
		case !strings.HasPrefix(old, name+":"):
			fmt.Fprintln(&b, old)
		case line != "":
			fmt.Fprintln(&b, line)
		}
	}
	switch {
	case !found && line == "":
		return ErrNoUser
	case !found:
		fmt.Fprintln(&b, line)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".users-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing the users: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b.Bytes())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("writing the users: %w", err)
	}
	return nil
}
