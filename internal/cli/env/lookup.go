package env

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/store"
)

// countable are the commands whose entries can be named by how new they are.
var countable = []string{"inbox", "jobs", "runs"}

// Ago marks a number that counts from the newest entry: "-1" as it is after [countBack].
const Ago = "@-"

// CountBack makes "-1", "-2" and so on names of entries, the newest first, for commands
// that have such: left as they are they would be taken for flags. What stands behind a
// flag with a value is written with "=" there, if it is to begin with a minus sign.
func CountBack(args []string) []string {
	at := slices.IndexFunc(args, func(a string) bool { return slices.Contains(countable, a) })
	if at < 0 {
		return args
	}
	out := slices.Clone(args)
	for i := at + 1; i < len(out) && out[i] != "--"; i++ {
		if digits, ok := strings.CutPrefix(out[i], "-"); ok && digits != "" && strings.Trim(digits, "0123456789") == "" {
			out[i] = Ago + digits
		}
	}
	return out
}

// Newest reads a name that counts from the newest entry: 1 for that itself.
func Newest(name string) (n int, ok bool) {
	if name == "last" {
		return 1, true
	}
	digits, ok := strings.CutPrefix(name, Ago)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0
}

// Pick finds the one of entries, the newest first, that is meant by name: its id, an
// unambiguous beginning of it, its short form, or how new it is. What says what the
// entries are, such as "run".
func Pick[T any](what, list, name string, all []T, id func(T) string) (T, error) {
	var none T
	if n, ok := Newest(name); ok {
		switch {
		case len(all) == 0:
			return none, Usagef("there are no %ss: troupe %s lists none", what, list)
		case n > len(all):
			return none, Usagef("there is no %s -%d, only %d; troupe %s lists them", what, n, len(all), list)
		}
		return all[n-1], nil
	}
	found := slices.DeleteFunc(slices.Clone(all), func(e T) bool { return !isShort(name, id(e)) })
	switch exact := slices.IndexFunc(found, func(e T) bool { return id(e) == name }); {
	case exact >= 0:
		return found[exact], nil
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return none, Usagef("%d %ss are called %s…: give more of the id", len(found), what, Plain(name))
	}
	return none, Usagef("there is no %s %s; troupe %s lists them", what, Plain(strconv.Quote(name)), list)
}

// Find looks an entry up by its whole id, or else by what [Pick] knows among all of them.
func Find[T any](what, list, name string, id func(T) string, get func(id string) (T, error), all func() ([]T, error)) (T, error) {
	var none T
	if _, counted := Newest(name); !counted {
		found, err := get(name)
		if err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrInvalid) {
			return found, err
		}
	}
	entries, err := all()
	if err != nil {
		return none, err
	}
	found, err := Pick(what, list, name, entries, id)
	if err != nil {
		return none, err
	}
	return get(id(found))
}

// uuidLength is how long a UUID is, and shortLength how much of it short forms have.
const (
	uuidLength  = 36
	shortLength = 8
)

// Short is an id as lists show it: of one that begins with a UUID the first digits, and
// what is behind it.
func Short(id string) string {
	if len(id) < uuidLength || strings.Count(id[:uuidLength], "-") != 4 {
		return id
	}
	return id[:shortLength] + id[uuidLength:]
}

// isShort reports whether a name can mean an id: a beginning of it, or a beginning of its
// UUID and all that is behind that.
func isShort(name, id string) bool {
	if name == "" {
		return false
	}
	if strings.HasPrefix(id, name) {
		return true
	}
	if Short(id) == id {
		return false
	}
	head, tail, found := strings.Cut(name, "-")
	return found && head != "" && strings.HasPrefix(id, head) && id[uuidLength:] == "-"+tail
}

// Count is "1 job" or "2 jobs".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
