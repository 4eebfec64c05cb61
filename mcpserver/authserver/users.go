package authserver

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
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpserver/internal/ratelimit"
	"github.com/troupe-dev/troupe/mcpserver/internal/visit"
)

// Users is a login with names and passwords, at the page Issuer + "/login", from a file with a
// line "name:hash" for each user. A hash is of argon2id, or of bcrypt as "htpasswd -B" makes it;
// see [SetUser]. The file is read again when it changes: the logins and the grants of a user who
// is removed, or has another password, end.
func Users(file string) Login { return &users{file: file} }

type users struct {
	file    string
	pages   *pages
	checks  chan struct{} // has room for the hashes that are computed at once: each takes memory
	pairs   *ratelimit.Limits
	names   *ratelimit.Limits
	sources *ratelimit.Limits

	read atomic.Pointer[userFile] // nil before
}

// userFile is the file as it was last read.
type userFile struct {
	seen os.FileInfo
	by   map[string]string // hashes
}

// Bounds on users.
const (
	maxUsers    = 10_000
	maxUserFile = 4 << 20 // bytes
	maxPassword = 1024    // bytes
	maxChecks   = 2
)

func (u *users) join(v *pages, _ *records) error {
	u.pages, u.checks = v, make(chan struct{}, maxChecks)
	u.pairs = ratelimit.New(1.0/30, 5)   // of one user, from one address
	u.names = ratelimit.New(1.0/10, 50)  // of one user
	u.sources = ratelimit.New(1.0/3, 30) // from one address
	_, _, err := u.hashOf("")
	return err
}

// hashOf returns the hash of a user's password, by the file as it is now.
func (u *users) hashOf(name string) (hash string, ok bool, err error) {
	now, err := os.Stat(u.file)
	if err != nil {
		return "", false, fmt.Errorf("the users: %w", err)
	}
	file := u.read.Load()
	if file == nil || !os.SameFile(file.seen, now) || !file.seen.ModTime().Equal(now.ModTime()) || file.seen.Size() != now.Size() {
		list, err := readUsers(u.file)
		if err != nil {
			return "", false, err
		}
		file = &userFile{seen: now, by: make(map[string]string, len(list))}
		for _, one := range list {
			file.by[one.name] = one.hash
		}
		u.read.Store(file) // several requests may read it at once: it is small
	}
	hash, ok = file.by[name]
	return hash, ok, nil
}

// loginOf changes with the password of a user.
func loginOf(hash string) string { return visit.Digest(hash)[:16] }

func (u *users) visitor(r *http.Request) (person, bool) {
	who, ok := u.pages.loggedIn(r)
	return who, ok && u.knows(who)
}

func (u *users) knows(who person) bool {
	hash, ok, err := u.hashOf(who.Subject)
	if err != nil {
		u.pages.log.Error("the users cannot be read", "error", err)
	}
	return ok && loginOf(hash) == who.Login
}

func (u *users) active(_ context.Context, g *grant) (bool, error) {
	hash, ok, err := u.hashOf(g.Subject)
	return ok && loginOf(hash) == g.Login, err
}

func (u *users) enter(w http.ResponseWriter, _ *http.Request, back string) error {
	w.Header().Set("Location", visit.WithQuery(u.pages.path("login"), "return_to", back))
	w.WriteHeader(http.StatusFound)
	return nil
}

// loginForm is what the form of the page has, sealed.
type loginForm struct {
	Browser string    `json:"browser"`
	Back    string    `json:"back"`
	Until   time.Time `json:"until"`
}

func (u *users) serve(w http.ResponseWriter, r *http.Request, page string) error {
	switch {
	case page != "":
		u.pages.say(w, http.StatusNotFound, "This page does not exist.")
	case r.Method == http.MethodPost:
		return u.logIn(w, r)
	default:
		back := r.URL.Query().Get("return_to")
		if !visit.IsPath(back) {
			back = u.pages.path("login")
		}
		if who, ok := u.visitor(r); ok && back == u.pages.path("login") {
			u.pages.say(w, http.StatusOK, "You are logged in as "+who.Subject+".")
			return nil
		}
		return u.show(w, r, http.StatusOK, back, "", "")
	}
	return nil
}

func (u *users) show(w http.ResponseWriter, r *http.Request, status int, back, name, warning string) error {
	browser := u.pages.cookies.Browser(w, r, browserCookie, browserLife)
	token, err := u.pages.cookies.SealText(&loginForm{visit.Digest(browser), back, time.Now().Add(pageLife)}, "login")
	if err != nil {
		return err
	}
	u.pages.show(w, status, "login", map[string]any{"Action": u.pages.path("login"), "Token": token, "User": name, "Warning": warning})
	return nil
}

// logIn takes a name and a password, from a page that was shown to this browser.
func (u *users) logIn(w http.ResponseWriter, r *http.Request) error {
	var f loginForm
	cookie, err := r.Cookie(u.pages.cookies.Name(browserCookie))
	if !u.pages.cookies.OpenText(r.PostForm.Get("token"), "login", &f) || !time.Now().Before(f.Until) ||
		err != nil || !oauth.NewSecret(visit.Digest(cookie.Value)).Equal(oauth.NewSecret(f.Browser)) {
		u.pages.forbid(w, r, "a login of another browser, or too late")
		return nil
	}
	name, password := r.PostForm.Get("user"), r.PostForm.Get("password")
	if len(name) > maxSubject || len(password) > maxPassword {
		return u.show(w, r, http.StatusBadRequest, f.Back, "", "That is too long.")
	}
	address := u.pages.addressOf(r)
	wait := max(u.sources.Take(u.sources.Of(address)), u.pairs.Take(u.pairs.Of(address+" "+name)), u.names.Take(u.names.Of(name)))
	if wait > 0 {
		u.pages.log.Warn("too many logins are tried", "user", name, "address", address)
		return u.show(w, r, http.StatusTooManyRequests, f.Back, name, "Too many attempts. Wait a minute, and try again.")
	}
	hash, ok, err := u.hashOf(name)
	if err != nil {
		return err
	}
	select {
	case u.checks <- struct{}{}:
		defer func() { <-u.checks }()
	case <-r.Context().Done():
		return nil // the browser has gone
	}
	if !checkPassword(cmp.Or(hash, noUser), password) || !ok {
		u.pages.log.Warn("a login is refused", "user", name, "address", address)
		return u.show(w, r, http.StatusForbidden, f.Back, name, "The name or the password is wrong.")
	}
	u.pages.log.Info("a user logs in", "user", name, "address", address)
	if err := u.pages.logIn(w, person{name, loginOf(hash)}); err != nil {
		return err
	}
	w.Header().Set("Location", f.Back)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// noUser is the hash for a name that the file does not have: it takes the same time, and fits no password.
const noUser = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// user is a line of the file.
type user struct{ name, hash string }

// readUsers reads the file unless others may read or write it too (SECA-36).
func readUsers(file string) ([]user, error) {
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
	raw, err := io.ReadAll(io.LimitReader(f, maxUserFile+1))
	if err != nil {
		return nil, fmt.Errorf("the users: %w", err)
	}
	list, err := parseUsers(raw)
	if err != nil {
		return nil, fmt.Errorf("the users: %s: %w", file, err)
	}
	return list, nil
}

func parseUsers(raw []byte) (list []user, err error) {
	if len(raw) > maxUserFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxUserFile)
	}
	names := make(map[string]bool)
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		switch {
		case checkUser(name) != nil:
			return nil, fmt.Errorf("line %d: %w", n, checkUser(name))
		case names[name]:
			return nil, fmt.Errorf("line %d: the user %q comes twice", n, name)
		case !knownHash(hash):
			return nil, fmt.Errorf("line %d: the user %q has no hash of argon2id or bcrypt: make it with troupe serve users add", n, name)
		}
		names[name] = true
		if list = append(list, user{name, hash}); len(list) > maxUsers {
			return nil, fmt.Errorf("it has more than %d users", maxUsers)
		}
	}
	return list, nil
}

// checkUser checks a name. What shows nothing, or something else, may not be in it.
func checkUser(name string) error {
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

func checkPassword(hash, password string) bool {
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

// SetUser adds a user to a file for [Users], or gives the user another password. The file is made
// where there is none.
func SetUser(file, name, password string) error {
	if err := checkUser(name); err != nil {
		return err
	}
	if n := len(password); n < 8 || n > maxPassword {
		return fmt.Errorf("the password has %d bytes, want 8 to %d", n, maxPassword)
	}
	return editUsers(file, name, name+":"+hashPassword(password))
}

// ErrNoUser is the error of a user that is not in the file.
var ErrNoUser = errors.New("there is no such user in the file")

// RemoveUser removes a user from a file.
func RemoveUser(file, name string) error { return editUsers(file, name, "") }

// UserNames lists the users of a file, in its order.
func UserNames(file string) (names []string, err error) {
	list, err := readUsers(file)
	for _, one := range list {
		names = append(names, one.name)
	}
	return names, err
}

// editUsers replaces the line of a user, or adds it, or with line "" removes it. The file is
// replaced whole: a server never reads a half of it.
func editUsers(file, name, line string) error {
	list, err := readUsers(file)
	if err != nil && (line == "" || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	found := slices.ContainsFunc(list, func(one user) bool { return one.name == name })
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
