package userfile_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/userfile"
)

// A user keeps the role with another password, and gets another one by name; a role that is none is refused.
func TestRoles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	for _, step := range []struct{ role, want string }{{"", ""}, {"answer", "answer"}, {"", "answer"}, {"operate", "operate"}} {
		if err := userfile.Set(file, "ada", "a password", step.role); err != nil {
			t.Fatal(err)
		}
		f, err := userfile.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		ada, ok, err := f.LogIn(t.Context(), "ada", "a password")
		if err != nil || !ok || ada.Role != step.want {
			t.Errorf("after the role %q: got %+v, %v, %v, want %q", step.role, ada, ok, err, step.want)
		}
		if _, ok, _ := f.LogIn(t.Context(), "ada", "another"); ok {
			t.Error("a wrong password: it logs in")
		}
		if _, ok, _ := f.LogIn(t.Context(), "eve", "a password"); ok {
			t.Error("a name that the file lacks: it logs in")
		}
	}
	if err := userfile.Set(file, "ada", "a password", "root"); err == nil {
		t.Error("a role that is none: got no error")
	}
}

// FuzzUsers: what a file has in it is read or refused, and a user with a password that is known is
// none that the file does not have.
func FuzzUsers(f *testing.F) {
	for _, seed := range []string{"", "a:b", "alice:$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA\n", "a:$2a$04$" + strings.Repeat("a", 53), "#\n:\n\x00"} {
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, text, password string) {
		userfile.TryUsers(text, password)
	})
}
