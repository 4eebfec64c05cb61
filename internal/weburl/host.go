package weburl

import (
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// names maps and checks the names of hosts as browsers do (UTS 46), with the stricter
// alphabet of host names.
var names = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(true),
	idna.ValidateLabels(true), idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule(), idna.VerifyDNSLength(true))

// host fills in Host and Domain. The address is zero for a name.
func (v *View) host(raw string) (netip.Addr, error) {
	if strings.Contains(raw, ":") {
		addr, err := netip.ParseAddr(raw)
		if err != nil || addr.Zone() != "" {
			return addr, refuse("its host is not a valid IPv6 address")
		}
		v.Host = addr.String()
		v.warnAddr(addr)
		return addr, nil
	}
	host, err := names.ToASCII(raw)
	if err != nil || host == "" {
		return netip.Addr{}, refuse("its host is not a valid name")
	}
	if strings.HasSuffix(host, ".") {
		return netip.Addr{}, refuse("its host ends in a dot")
	}
	v.Host = host
	if !isASCII(raw) {
		v.warn("Its host is written with other letters than it has: it leads to %s.", host)
	}
	if numeric(host) {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.String() != host {
			return addr, refuse("its host is a number that browsers read as an address")
		}
		v.warnAddr(addr)
		return addr, nil
	}
	v.domain()
	return netip.Addr{}, v.foreign()
}

// numeric reports hosts that browsers read as IPv4 addresses, or refuse: the last
// label begins with a digit, as those of 0x7f.1 and 2130706433 do.
func numeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last[0] >= '0' && last[0] <= '9'
}

func (v *View) warnAddr(addr netip.Addr) {
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback():
		v.warn("It leads to a program on this machine (%s).", v.Host)
	case addr.IsPrivate(), addr.IsLinkLocalUnicast(), addr.IsUnspecified():
		v.warn("Its host is an IP address in your own network (%s).", v.Host)
	default:
		v.warn("Its host is an IP address (%s), not a name.", v.Host)
	}
}

// domain finds the registrable domain by the public suffix list, and names before
// it that look like another (accounts.google.com.evil.co.uk).
func (v *View) domain() {
	if v.local(netip.Addr{}) {
		v.warn("It leads to a program on this machine (%s).", v.Host)
		return
	}
	suffix, listed := publicsuffix.PublicSuffix(v.Host)
	domain, err := publicsuffix.EffectiveTLDPlusOne(v.Host)
	if err != nil {
		v.warn("Its host, %s, has no registrable domain.", v.Host)
		return
	}
	v.Domain = domain
	if !listed && !strings.Contains(suffix, ".") {
		v.warn("Its top-level domain, .%s, is not a public one.", suffix)
	}
	before := strings.Split(strings.TrimSuffix(strings.TrimSuffix(v.Host, domain), "."), ".")
	for i, label := range before {
		if i > 0 && slices.Contains(wellKnown, label) {
			v.warn("It looks like %s but belongs to %s.", strings.Join(before[max(0, i-1):i+1], "."), domain)
			return
		}
	}
}

// wellKnown are endings that a host with another domain is dressed up with.
var wellKnown = []string{"com", "org", "net", "gov", "edu"}

// foreign looks at the labels that are not ASCII in truth, whichever way they were
// written (URL-14).
func (v *View) foreign() error {
	for label := range strings.SplitSeq(v.Host, ".") {
		if !strings.HasPrefix(label, "xn--") {
			continue
		}
		text, err := names.ToUnicode(label)
		if err != nil || isASCII(text) {
			return refuse("its host is not a valid name")
		}
		if strings.ContainsFunc(text, odd) {
			return refuse("its host has invisible characters")
		}
		if scripts := scriptsOf(text); mixed(scripts) {
			v.warn("The part %s of its host is %s: it mixes letters of %s, so that it can look like another name.",
				label, text, strings.Join(scripts, " and "))
		} else {
			v.warn("The part %s of its host is %s, in letters of %s; they can look like others.", label, text, strings.Join(scripts, " and "))
		}
	}
	return nil
}

// scriptsOf names the scripts of a text, sorted; digits and such have none.
func scriptsOf(text string) []string {
	var found []string
	for _, r := range text {
		if unicode.In(r, unicode.Common, unicode.Inherited) {
			continue
		}
		for name, table := range unicode.Scripts {
			if unicode.Is(table, r) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	if len(found) == 0 {
		return []string{"no script"}
	}
	slices.Sort(found)
	return found
}

// together are the scripts that one language is written in (UTS 39).
var together = [][]string{
	{"Han", "Hiragana", "Katakana", "Latin"},
	{"Bopomofo", "Han", "Latin"},
	{"Han", "Hangul", "Latin"},
}

// mixed reports scripts that no language has together.
func mixed(scripts []string) bool {
	if len(scripts) < 2 {
		return false
	}
	return !slices.ContainsFunc(together, func(set []string) bool {
		return !slices.ContainsFunc(scripts, func(s string) bool { return !slices.Contains(set, s) })
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
