package form

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// The functions here read JSON that is known to be valid, without duplicate names.

func find(list []jsonx.Member, name string) json.RawMessage {
	for _, m := range list {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// counts reads the two bounds of a number of things; -1 is no upper bound.
func counts(list []jsonx.Member, least, most string) (low, high int, err error) {
	high = -1
	for _, b := range []struct {
		name string
		to   *int
	}{{least, &low}, {most, &high}} {
		raw := find(list, b.name)
		if raw == nil {
			continue
		}
		n, ok := count(raw)
		if !ok {
			return 0, 0, fmt.Errorf("has a %s that is not a whole number from 0", b.name)
		}
		*b.to = n
	}
	if high >= 0 && low > high {
		return 0, 0, fmt.Errorf("cannot be filled in: %s is more than %s", least, most)
	}
	return low, high, nil
}

func count(raw json.RawMessage) (int, bool) {
	digits := strings.TrimSuffix(string(raw), ".0") // as some encoders write every number
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1e8 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, digits != ""
}

// texts reads a list of strings.
func texts(raw json.RawMessage) ([]string, bool) {
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || jsonx.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	out := make([]string, len(list))
	for i := range list {
		var ok bool
		if out[i], ok = jsonx.Text(list[i]); !ok {
			return nil, false
		}
	}
	return out, true
}
