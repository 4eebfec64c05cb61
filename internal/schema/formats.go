package schema

import (
	"net/netip"
	"net/url"
	"regexp/syntax"
	"strings"
	"time"
)

// format is a name that strings are held against.
type format struct {
	name  string
	fits  func(string) bool // takes time in proportion to the string
	steps int               // for each byte, as for a pattern
}

// formats are those that are asserted. Any other constrains nothing.
var formats = formatsByName(map[string]func(string) bool{
	"regex": isRegex, "json-pointer": isPointer, "relative-json-pointer": isRelativePointer, "uuid": isUUID, "semver": isSemver,
	"date": isDate, "time": isTime, "date-time": isDateTime, "duration": isDuration, "period": isPeriod,
	"ipv4": isIPv4, "ipv6": isIPv6, "hostname": isHostname, "email": isEmail,
	"uri": isURI, "iri": isURI, "uri-reference": isURIReference, "iri-reference": isURIReference, "uri-template": isURITemplate,
})

func formatsByName(checks map[string]func(string) bool) map[string]*format {
	all := map[string]*format{}
	for name, fits := range checks {
		all[name] = &format{name: name, fits: fits}
	}
	all["regex"].steps = 16 // a parser's
	return all
}

func isRegex(s string) bool {
	_, err := syntax.Parse(s, syntax.Perl)
	return err == nil
}

// isPointer takes a JSON pointer (RFC 6901).
func isPointer(s string) bool {
	if s != "" && s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

func isRelativePointer(s string) bool {
	n := leadingDigits(s)
	return isWhole(s[:n]) && (s[n:] == "#" || isPointer(s[n:]))
}

func leadingDigits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// isWhole takes a decimal number without leading zeros.
func isWhole(s string) bool {
	return s != "" && leadingDigits(s) == len(s) && (s == "0" || s[0] != '0')
}

func isUUID(s string) bool {
	for i := range len(s) {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (s[i] == '-') || !hyphen && !isHex(s[i]) {
			return false
		}
	}
	return len(s) == 36
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// isWordByte takes ASCII letters, digits, and what else is allowed.
func isWordByte(c byte, others string) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte(others, c) >= 0
}

func isWord(s, others string) bool {
	for i := range len(s) {
		if !isWordByte(s[i], others) {
			return false
		}
	}
	return s != ""
}

// isSemver takes a version of semver.org.
func isSemver(s string) bool {
	s, build, built := strings.Cut(s, "+")
	core, early, isEarly := strings.Cut(s, "-")
	if built && !isEach(build, func(id string) bool { return isWord(id, "-") }) {
		return false
	}
	if isEarly && !isEach(early, func(id string) bool { return isWord(id, "-") && (leadingDigits(id) < len(id) || isWhole(id)) }) {
		return false
	}
	return strings.Count(core, ".") == 2 && isEach(core, isWhole)
}

// isEach holds the parts between points against ok.
func isEach(s string, ok func(string) bool) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !ok(part) {
			return false
		}
	}
	return true
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isTime takes a time of RFC 3339. A leap second is the last of a day in UTC.
func isTime(s string) bool {
	at, ok := minutes(s)
	if !ok || len(s) < 9 || s[5] != ':' || leadingDigits(s[6:8]) != 2 || s[6] > '6' || s[6] == '6' && s[7] != '0' {
		return false
	}
	zone := s[8:]
	if zone[0] == '.' {
		n := leadingDigits(zone[1:])
		if zone = zone[1+n:]; n == 0 || zone == "" {
			return false
		}
	}
	switch zone[0] {
	case 'z', 'Z':
		if len(zone) != 1 {
			return false
		}
	case '+', '-':
		offset, ok := minutes(zone[1:])
		if !ok || len(zone) != 6 {
			return false
		}
		if zone[0] == '+' {
			offset = -offset
		}
		at += offset
	default:
		return false
	}
	const day = 24 * 60
	return s[6] != '6' || (at+day)%day == day-1
}

// minutes reads hh:mm.
func minutes(s string) (int, bool) {
	if len(s) < 5 || s[2] != ':' || leadingDigits(s[:2]) != 2 || leadingDigits(s[3:5]) != 2 {
		return 0, false
	}
	h, m := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	return h*60 + m, h < 24 && m < 60
}

func isDateTime(s string) bool {
	return len(s) >= 20 && s[10]|0x20 == 't' && isDate(s[:10]) && isTime(s[11:])
}

// isDuration takes a duration of RFC 3339, appendix A.
func isDuration(s string) bool {
	s, ok := strings.CutPrefix(s, "P")
	if !ok {
		return false
	}
	if weeks, ok := strings.CutSuffix(s, "W"); ok {
		return weeks != "" && leadingDigits(weeks) == len(weeks)
	}
	days, hours, timed := strings.Cut(s, "T")
	return s != "" && isUnits(days, "YMD") && (!timed || hours != "" && isUnits(hours, "HMS"))
}

// isUnits takes numbers, each with one of the units, in their order.
func isUnits(s, units string) bool {
	for s != "" {
		n := leadingDigits(s)
		if n == 0 || n == len(s) {
			return false
		}
		i := strings.IndexByte(units, s[n])
		if i < 0 {
			return false
		}
		s, units = s[n+1:], units[i+1:]
	}
	return true
}

// isPeriod takes an interval: two times, or a time and a duration.
func isPeriod(s string) bool {
	start, end, _ := strings.Cut(s, "/")
	if isDuration(start) {
		return isDateTime(end)
	}
	return isDateTime(start) && (isDuration(end) || isDateTime(end))
}

func isIPv4(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is4()
}

func isIPv6(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is6() && addr.Zone() == ""
}

func isHostname(s string) bool {
	s = strings.TrimSuffix(s, ".")
	return len(s) <= 253 && isEach(s, func(label string) bool {
		return len(label) <= 63 && isWord(label, "-") && label[0] != '-' && label[len(label)-1] != '-'
	})
}

func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if len(s) > 254 || at < 0 || at > 64 || !isMailbox(s[:at]) {
		return false
	}
	host := s[at+1:]
	if len(host) < 2 || host[0] != '[' || host[len(host)-1] != ']' {
		return isHostname(host)
	}
	address, is6 := strings.CutPrefix(host[1:len(host)-1], "IPv6:")
	return is6 && isIPv6(address) || !is6 && isIPv4(address)
}

func isMailbox(s string) bool {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return !strings.ContainsAny(s[1:len(s)-1], `"\`)
	}
	return s == "" || isEach(s, func(atom string) bool { return isWord(atom, "!#$%&'*+-/=?^_`{|}~") })
}

// parseURI adds to url.Parse that an IPv6 host is one, in brackets.
func parseURI(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, false
	}
	host := u.Hostname()
	return u, !strings.Contains(host, ":") || strings.Contains(u.Host, "[") && isIPv6(host)
}

func isURI(s string) bool {
	u, ok := parseURI(s)
	return ok && u.IsAbs()
}

func isURIReference(s string) bool {
	_, ok := parseURI(s)
	return ok && !strings.Contains(s, `\`)
}

// isURITemplate looks at the braces in the parts of the path, which stand in pairs.
func isURITemplate(s string) bool {
	u, ok := parseURI(s)
	if !ok {
		return false
	}
	for part := range strings.SplitSeq(u.RawPath, "/") {
		part, err := url.PathUnescape(part)
		if err != nil {
			return false
		}
		open := false
		for _, c := range part {
			if c == '{' && open || c == '}' && !open {
				return false
			}
			open = c == '{' || open && c != '}'
		}
		if open {
			return false
		}
	}
	return true
}
