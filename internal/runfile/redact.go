package runfile

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/store"
)

// Redacted takes the place of what looks like a secret.
const Redacted = "[redacted]"

// secrets are the texts that are secrets wherever they stand. What the first group of an expression
// matches stays.
var secrets = regexp.MustCompile(strings.Join([]string{
	`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
	`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`, // JWT
	`\bsk-[A-Za-z0-9_-]{16,}`, `\bgh[pousr]_[A-Za-z0-9]{20,}`, `\bgithub_pat_[A-Za-z0-9_]{20,}`, `\bglpat-[A-Za-z0-9_-]{16,}`,
	`\bxox[abeprs]-[A-Za-z0-9-]{10,}`, `\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`, `\bAIza[A-Za-z0-9_-]{35}`, `\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`,
	`(?i)\bbearer\s+[A-Za-z0-9._~+/-]{12,}=*`,
	`(?i)\b(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret)["']?\s*[=:]\s*["']?[^\s"'&,;]{4,}`,
	`://[^\s/@:]*:[^\s/@]+@`, // of a URL
}, "|"))

// Redact replaces what looks like a secret in the events of runs, and in their titles: known forms of
// keys and tokens, what follows "password=" and the like, the text of members of JSON objects whose
// names tell of a secret, or that are among names, in any case. It is a guess: read a file before you
// publish it. The result is a copy.
func Redact(all []Recording, names ...string) ([]Recording, error) {
	named := map[string]bool{"requeststate": true} // a server's own
	for _, name := range names {
		named[strings.ToLower(name)] = true
	}
	out := make([]Recording, len(all))
	for i, rec := range all {
		rec.Run.Title, rec.Run.Summary = text(rec.Run.Title), text(rec.Run.Summary)
		events := rec.Events
		rec.Events = make([]store.Event, len(events))
		for j, ev := range events {
			if len(ev.Body) > 0 {
				var v any
				d := json.NewDecoder(bytes.NewReader(ev.Body))
				d.UseNumber()
				if err := d.Decode(&v); err != nil {
					return nil, err
				}
				var body bytes.Buffer
				e := json.NewEncoder(&body) // of json.Number it makes a number again
				e.SetEscapeHTML(false)
				if err := e.Encode(value(v, named)); err != nil {
					return nil, err
				}
				ev.Body = bytes.TrimSpace(body.Bytes())
			}
			rec.Events[j] = ev
		}
		out[i] = rec
	}
	return out, nil
}

// RedactText replaces what looks like a secret in a text.
func RedactText(s string) string { return text(s) }

func text(s string) string { return secrets.ReplaceAllLiteralString(s, Redacted) }

// value redacts a JSON value.
func value(v any, named map[string]bool) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = value(v[i], named)
		}
	case map[string]any:
		for name, member := range v {
			if s, ok := member.(string); ok && s != "" && (named[strings.ToLower(name)] || form.LooksSecret(name)) {
				v[name] = Redacted
				continue
			}
			v[name] = value(member, named)
		}
	}
	return v
}
