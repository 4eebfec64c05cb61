package authserver

import (
	"context"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/userfile"
	"github.com/troupe-dev/troupe/internal/visit"
)

// Users is a login with names and passwords, at the page Issuer + "/login", from a file with a
// line "name:hash" for each user. A hash is of argon2id, or of bcrypt as "htpasswd -B" makes it;
// see [SetUser]. The file is read again when it changes: the logins and the grants of a user who
// is removed, or has another password, end.
func Users(file string) Login { return &users{path: file} }

type users struct {
	path  string
	file  *userfile.File
	pages *pages
	tries *visit.Tries
}

func (u *users) join(v *pages, _ *records) error {
	u.pages, u.tries = v, visit.NewTries()
	var err error
	u.file, err = userfile.Open(u.path)
	return err
}

// hashOf returns the hash of a user's password, by the file as it is now.
func (u *users) hashOf(name string) (hash string, ok bool, err error) {
	one, ok, err := u.file.User(name)
	return one.Hash, ok, err
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
	if len(name) > maxSubject || len(password) > userfile.MaxPassword {
		return u.show(w, r, http.StatusBadRequest, f.Back, "", "That is too long.")
	}
	address := u.pages.addressOf(r)
	if u.tries.Exceeded(address, name) {
		u.pages.log.Warn("too many logins are tried", "user", name, "address", address)
		return u.show(w, r, http.StatusTooManyRequests, f.Back, name, "Too many attempts. Wait a minute, and try again.")
	}
	one, ok, err := u.file.LogIn(r.Context(), name, password)
	switch {
	case r.Context().Err() != nil:
		return nil // the browser has gone
	case err != nil:
		return err
	case !ok:
		u.pages.log.Warn("a login is refused", "user", name, "address", address)
		return u.show(w, r, http.StatusForbidden, f.Back, name, "The name or the password is wrong.")
	}
	u.pages.log.Info("a user logs in", "user", name, "address", address)
	if err := u.pages.logIn(w, person{name, loginOf(one.Hash)}); err != nil {
		return err
	}
	w.Header().Set("Location", f.Back)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// SetUser adds a user to a file for [Users], or gives the user another password. The file is made
// where there is none.
func SetUser(file, name, password string) error { return userfile.Set(file, name, password, "") }

// ErrNoUser is the error of a user that is not in the file.
var ErrNoUser = userfile.ErrNoUser

// RemoveUser removes a user from a file.
func RemoveUser(file, name string) error { return userfile.Remove(file, name) }

// UserNames lists the users of a file, in its order.
func UserNames(file string) (names []string, err error) {
	list, err := userfile.Read(file)
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names, err
}
