package oauth

import (
	"slices"
	"strings"
)

// Bounds on challenges.
const (
	maxChallenges     = 16
	maxChallengesSize = 8 << 10 // bytes, of all values together
)

// Challenge is one challenge of a WWW-Authenticate header.
type Challenge struct {
	Scheme  string            // in small letters
	Token68 string            // the one value of schemes such as Negotiate, instead of parameters
	Params  map[string]string // names in small letters
}

// Challenges are those of one answer.
type Challenges []Challenge

// ParseChallenges reads the values of WWW-Authenticate as they came: lists of challenges by
// RFC 9110 section 11.6.1. Two deviations that are common are understood: a missing comma
// between parameters, and an address without quotes. Text that is malformed beyond that ends
// its value; the challenges before it count. A challenge with a parameter twice does not
// count. Of more than 16 challenges or 8 KiB the rest does not count.
func ParseChallenges(values []string) Challenges {
	var all Challenges
	left := maxChallengesSize
	for _, value := range values {
		if left -= len(value); left < 0 {
			break
		}
		p := challengeParser{text: value}
		for len(all) < maxChallenges {
			c, ok := p.next()
			if !ok {
				break
			}
			all = append(all, c)
		}
	}
	return all
}

// ofToken iterates over the challenges that ask for an access token.
func (cs Challenges) ofToken(yield func(Challenge) bool) {
	for _, c := range cs {
		if (c.Scheme == "bearer" || c.Scheme == "dpop") && !yield(c) {
			return
		}
	}
}

// Wants reports whether there is a challenge of a scheme, such as "dpop".
func (cs Challenges) Wants(scheme string) bool {
	return slices.ContainsFunc(cs, func(c Challenge) bool { return c.Scheme == strings.ToLower(scheme) })
}

// ResourceMetadata returns the address of the resource metadata (RFC 9728), unchecked; "" if
// there is none.
func (cs Challenges) ResourceMetadata() string {
	for c := range cs.ofToken {
		if at := c.Params["resource_metadata"]; at != "" {
			return at
		}
	}
	return ""
}

// HasError reports whether a challenge has the error code, such as "insufficient_scope".
func (cs Challenges) HasError(code string) bool {
	for c := range cs.ofToken {
		if c.Params["error"] == code {
			return true
		}
	}
	return false
}

// WantsScopes reports whether a challenge of a 403 wants a token with other scopes: it has the
// code insufficient_scope, or scopes and no code, as the Go SDK sends it.
func (cs Challenges) WantsScopes() bool {
	for c := range cs.ofToken {
		if code := c.Params["error"]; code == "insufficient_scope" || code == "" && c.Params["scope"] != "" {
			return true
		}
	}
	return false
}

// Scopes returns the scopes that the server wants: those of the challenge that has the code
// insufficient_scope, else of the first that has any.
func (cs Challenges) Scopes() []string {
	var first []string
	for c := range cs.ofToken {
		scopes := ParseScopes(c.Params["scope"])
		if c.Params["error"] == "insufficient_scope" && scopes != nil {
			return scopes
		}
		if first == nil {
			first = scopes
		}
	}
	return first
}

// Bounds on scopes.
const (
	maxScopes    = 200
	maxScopeSize = 256 // bytes of one
)

// ParseScopes reads a list of scopes with spaces between them. It leaves out those that RFC
// 6749 does not allow, those that come twice, and what is beyond 200.
func ParseScopes(text string) []string { return cleanScopes(strings.Fields(text)) }

func cleanScopes(all []string) []string {
	var kept []string
	for _, s := range all {
		if len(kept) < maxScopes && isScope(s) && !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

func isScope(s string) bool {
	return s != "" && len(s) <= maxScopeSize &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}

// challengeParser takes one value apart.
type challengeParser struct {
	text   string
	at     int
	broken bool // malformed text has ended the value
}

// next returns the next challenge; ok is false at the end. A challenge that is not well
// formed, and all behind it, is left out.
func (p *challengeParser) next() (c Challenge, ok bool) {
	for {
		p.skip(" \t,")
		scheme := p.run(isTokenChar)
		if scheme == "" {
			p.broken = p.at < len(p.text)
			return c, false
		}
		c = Challenge{Scheme: strings.ToLower(scheme)}
		if p.at < len(p.text) && p.text[p.at] != ',' && p.skip(" \t") == 0 {
			p.broken = true // such as Bearer/2
			return c, false
		}
		if c.Token68 = p.token68(); c.Token68 != "" {
			return c, true
		}
		twice := p.params(&c)
		if p.broken {
			return c, false
		}
		if !twice {
			return c, true
		}
	}
}

// params reads parameters up to the next challenge.
func (p *challengeParser) params(c *Challenge) (twice bool) {
	for {
		back := p.at
		p.skip(" \t,")
		name := p.run(isTokenChar)
		p.skip(" \t")
		if name == "" || p.at == len(p.text) || p.text[p.at] != '=' { // the next challenge, or the end
			p.at = back
			return twice
		}
		p.at++
		p.skip(" \t")
		value, ok := p.value()
		if !ok {
			p.broken = true
			return twice
		}
		name = strings.ToLower(name)
		if _, had := c.Params[name]; had {
			twice = true
		}
		if c.Params == nil {
			c.Params = make(map[string]string)
		}
		c.Params[name] = value
	}
}

// token68 reads a value of that form which stands alone; "" if there is none.
func (p *challengeParser) token68() string {
	back := p.at
	body := p.run(func(c byte) bool { return isAlnum(c) || strings.IndexByte("-._~+/", c) >= 0 })
	end := p.at
	p.run(func(c byte) bool { return c == '=' })
	value := p.text[back:p.at]
	p.skip(" \t")
	if body == "" || end == back || p.at < len(p.text) && p.text[p.at] != ',' {
		p.at = back
		return ""
	}
	return value
}

// value reads the value of a parameter.
func (p *challengeParser) value() (string, bool) {
	if p.at == len(p.text) {
		return "", false
	}
	if p.text[p.at] != '"' {
		v := p.run(func(c byte) bool { return c > ' ' && c < 0x7f && c != ',' && c != '"' && c != '\\' })
		return v, v != ""
	}
	p.at++
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return b.String(), true
		case c == '\\':
			if p.at == len(p.text) || isControl(p.text[p.at]) {
				return "", false
			}
			b.WriteByte(p.text[p.at])
			p.at++
		case isControl(c):
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// skip passes over the characters of a set, and returns how many there were.
func (p *challengeParser) skip(set string) int {
	return len(p.run(func(c byte) bool { return strings.IndexByte(set, c) >= 0 }))
}

// run reads the characters for which f holds.
func (p *challengeParser) run(f func(byte) bool) string {
	from := p.at
	for p.at < len(p.text) && f(p.text[p.at]) {
		p.at++
	}
	return p.text[from:p.at]
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isTokenChar(c byte) bool { return isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 }

func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }
