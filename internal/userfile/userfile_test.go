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
		all, err := userfile.Read(file)
		if err != nil || len(all) != 1 || all[0].Role != step.want || !userfile.Check(all[0].Hash, "a password") {
			t.Errorf("after the role %q: got %+v, %v, want %q", step.role, all, err, step.want)
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
