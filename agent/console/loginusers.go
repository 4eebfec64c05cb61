package console

import (
	"net/http"

	"github.com/troupe-dev/troupe/internal/userfile"
	site "github.com/troupe-dev/troupe/internal/visit"
)

// Users is a login with names and passwords, from a file with a line "name:hash:role" for each user, as
// "troupe serve users add --role" writes it. A role is look, answer or operate; a user without one may
// look. The file is read again when it changes: the sessions of a user who is removed, or has another
// password, end, and another role counts at once.
func Users(file string) Login { return &users{path: file} }

type users struct {
	path  string
	file  *userfile.File
	desk  *Console
	tries *site.Tries
}

// roles are those of the file.
var roles = map[string]Role{"": Viewer, "look": Viewer, "answer": Answerer, "operate": Operator}

// ParseRole returns the role of a name: look, answer or operate.
func ParseRole(name string) (role Role, ok bool) {
	role, ok = roles[name]
	return role, ok && name != ""
}

func (u *users) join(c *Console) (err error) {
	u.desk, u.tries = c, site.NewTries()
	u.file, err = userfile.Open(u.path)
	return err
}

// markOf changes with the password of a user.
func markOf(hash string) string { return site.Digest(hash) }

func (u *users) role(who *person) Role {
	one, ok, err := u.file.User(who.Name)
	if err != nil {
		u.desk.log.Error("the users of the console cannot be read", "error", err)
	}
	if !ok || err != nil || markOf(one.Hash) != who.Mark {
		return Stranger
	}
	return roles[one.Role]
}

// usersPage is the form for a name and a password.
type usersPage struct{ Back, Name, Warning string }

func (u *users) show(w http.ResponseWriter, r *http.Request, status int, p usersPage) error {
	u.desk.render(w, r, status, "password", view{Title: "Log in", Body: p})
	return nil
}

func (u *users) begin(w http.ResponseWriter, r *http.Request, back string) error {
	return u.show(w, r, http.StatusOK, usersPage{Back: back})
}

func (u *users) finish(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		u.desk.say(w, r, http.StatusNotFound, noPage)
		return nil
	}
	p := usersPage{Back: pathOf(r.PostFormValue("back"))}
	name, password := r.PostFormValue("user"), r.PostFormValue("password")
	if userfile.CheckName(name) != nil || len(password) > userfile.MaxPassword {
		p.Warning = "The name or the password is wrong."
		return u.show(w, r, http.StatusForbidden, p)
	}
	p.Name = name
	if u.tries.Exceeded(u.desk.addressOf(r), name) {
		u.desk.log.Warn("too many logins are tried at the console", "name", name, "address", u.desk.addressOf(r))
		w.Header().Set("Retry-After", "60")
		p.Warning = "Too many attempts. Wait a minute, and try again."
		return u.show(w, r, http.StatusTooManyRequests, p)
	}
	one, ok, err := u.file.LogIn(r.Context(), name, password)
	switch {
	case r.Context().Err() != nil:
		return nil // the browser has gone
	case err != nil:
		return err
	case !ok:
		u.desk.log.Warn("a login is refused at the console", "name", name, "address", u.desk.addressOf(r))
		p.Warning = "The name or the password is wrong."
		return u.show(w, r, http.StatusForbidden, p)
	}
	u.desk.enter(w, r, person{Name: name, Mark: markOf(one.Hash)}, p.Back)
	return nil
}
