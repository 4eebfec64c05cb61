package hostconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/shellwords"
)

// Reach is the part of a definition that decides what is started, contacted or sent. Its texts are not expanded: no
// secret of the environment is in them, and a changed secret needs no new approval where another variable does.
// A person decides by what [Reach.Text] says of it, and the approval is bound to its hash.
type Reach struct {
	Type          string             `json:"type"`
	Command       string             `json:"command"`
	Args          []string           `json:"args"`
	Env           map[string]*string `json:"env"`
	EnvFile       string             `json:"envFile"`
	Dir           string             `json:"cwd"`
	URL           string             `json:"url"`
	Headers       map[string]string  `json:"headers"`
	HeadersHelper string             `json:"headersHelper"`
	OAuth         json.RawMessage    `json:"oauth,omitempty"`
	Sandbox       bool               `json:"sandbox"`

	// EnvFileSets are the variables of EnvFile, with the values of those that change what runs. It is nil without
	// such a file, and EnvFileUnread says that it could not be read.
	EnvFileSets   map[string]*string `json:"envFileSets,omitzero"`
	EnvFileUnread bool               `json:"envFileUnread,omitzero"`

	Authorization Authorization `json:"-"` // what OAuth says
}

// reachOf is the reach of a server whose texts are not expanded yet.
func reachOf(s *Server) *Reach {
	r := &Reach{
		Type: s.Type, Command: s.Command, Args: slices.Clone(s.Args), Env: maps.Clone(s.Env), EnvFile: s.EnvFile, Dir: s.Dir,
		URL: s.URL, Headers: maps.Clone(s.Headers), HeadersHelper: s.HeadersHelper, OAuth: s.OAuth, Sandbox: s.Sandbox, Authorization: s.Authorization,
	}
	for name, value := range r.Env {
		if value != nil {
			text := *value // the server's is expanded where it stands
			r.Env[name] = &text
		}
	}
	return r
}

// sets notes what the file of EnvFile says; nil if it could not be read.
func (r *Reach) sets(vars map[string]string) {
	if r.EnvFileUnread = vars == nil; r.EnvFileUnread {
		return
	}
	r.EnvFileSets = make(map[string]*string, len(vars))
	for name, value := range vars {
		if r.EnvFileSets[name] = nil; changesWhatRuns(name) {
			r.EnvFileSets[name] = &value
		}
	}
}

// hash returns the SHA-256 of the definition in canonical JSON (RFC 8785), in hexadecimal. Spellings of other hosts
// that mean the same give the same.
func (r *Reach) hash() string {
	text, err := jsonx.Marshal(r)
	if err == nil {
		text, err = jsonx.Canonical(text)
	}
	if err != nil {
		return "" // cannot be: all of it came from valid JSON; and an empty hash approves nothing
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// earlierHash is the hash by the first rule, which left out what the file of EnvFile says.
func (r *Reach) earlierHash() string {
	first := *r
	first.EnvFileSets, first.EnvFileUnread = nil, false
	return first.hash()
}

// Text says all of it in parts, for a person: first the command or the URL, then "label: value", such as
// "env: PATH=/usr/bin". Values that stand in the file are hidden where mask is set, but for those that change what
// runs; those of EnvFile always are. Names and values may have any characters: a caller that shows them spells out hidden
// ones.
func (r *Reach) Text(mask bool) []string {
	var t reachText
	if t.mask = mask; r.URL == "" {
		t.parts = []string{shellwords.Join(append([]string{r.Command}, r.Args...))}
	} else {
		t.parts = []string{quoted(r.URL)}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		t.add("env", t.variable(name, r.Env[name]))
	}
	t.add("cwd", quoted(r.Dir))
	if r.EnvFile != "" {
		t.add("env file", quoted(r.EnvFile)+r.envFileSets())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		t.add("header", name+": "+t.value(r.Headers[name]))
	}
	t.add("runs on this computer", quoted(r.HeadersHelper))
	t.authorization(&r.Authorization)
	return t.parts
}

// envFileSets says which variables the file sets.
func (r *Reach) envFileSets() string {
	if r.EnvFileUnread {
		return " (not readable)"
	}
	names := make([]string, 0, len(r.EnvFileSets))
	for _, name := range slices.Sorted(maps.Keys(r.EnvFileSets)) {
		if value := r.EnvFileSets[name]; value != nil {
			name += "=" + quoted(*value)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return " (sets nothing)"
	}
	return " (sets " + strings.Join(names, ", ") + ")"
}

// reachText collects what is said of a definition.
type reachText struct {
	parts []string
	mask  bool
}

// add adds a part, unless it is empty.
func (t *reachText) add(label, value string) {
	if value != "" {
		t.parts = append(t.parts, label+": "+value)
	}
}

// authorization adds what oauth says: who is shown which secret.
func (t *reachText) authorization(a *Authorization) {
	secret := a.ClientSecret != "" || a.PrivateKeyFile != "" || a.AssertionCommand != ""
	switch {
	case a.Issuer != "":
		t.add("logs in at", quoted(a.Issuer))
	case a.MetadataURL == "" && secret:
		t.add("logs in at", "the authorization server that it names")
	}
	t.add("logs in by what this says", quoted(a.MetadataURL))
	t.add("client", quoted(a.ClientID))
	t.add("client secret", t.value(a.ClientSecret))
	t.add("client metadata", quoted(a.ClientMetadataURL))
	t.add("client authentication", quoted(a.AuthMethod))
	t.add("signs with the key", quoted(a.PrivateKeyFile))
	t.add("key id", quoted(a.KeyID))
	t.add("without a person, by the grant", a.Grant)
	t.add("scopes", quoted(strings.Join(a.Scopes, " ")))
	t.add("runs on this computer", quoted(a.AssertionCommand))
	idp := &a.IdentityProvider
	t.add("shows who you are to", quoted(idp.Issuer))
	t.add("client there", quoted(idp.ClientID))
	t.add("client secret there", t.value(idp.ClientSecret))
	t.add("the browser returns to", quoted(a.RedirectURI))
	switch {
	case a.NoResource || a.Resource == noResource:
		t.add("its tokens", "are not bound to it")
	case a.Resource != "":
		t.add("its tokens are for", quoted(a.Resource))
	}
}

// variable is a variable of the environment; nil takes it away.
func (t *reachText) variable(name string, value *string) string {
	switch {
	case value == nil:
		return quoted(name) + " is taken away"
	case changesWhatRuns(name):
		return quoted(name) + "=" + quoted(*value)
	}
	return quoted(name) + "=" + t.value(*value)
}

// value is a value that may be secret.
func (t *reachText) value(s string) string {
	if t.mask {
		s = hidden(s)
	}
	return quoted(s)
}

// quoted keeps a text from passing for several parts.
func quoted(s string) string {
	if strings.ContainsAny(s, ";\"\n\r") || strings.TrimSpace(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// hidden is a text with nothing but the names of its variables.
func hidden(s string) string {
	const stars = "********"
	var b strings.Builder
	for s != "" {
		i := strings.Index(s, "${")
		end := -1
		if i >= 0 {
			end = closing(s[i:])
		}
		if end < 0 {
			b.WriteString(stars)
			break
		}
		if i > 0 {
			b.WriteString(stars)
		}
		name, _, _ := strings.Cut(s[i+2:i+end], ":-")
		fmt.Fprintf(&b, "${%s}", name)
		s = s[i+end+1:]
	}
	return b.String()
}

// changesWhatRuns reports whether a variable of the environment is one by which interpreters, loaders and other
// programs find code or configuration to run, or where data goes.
func changesWhatRuns(name string) bool {
	name = strings.ToUpper(name)
	if slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(name, w) }) {
		return false
	}
	return slices.Contains(steering, name) || slices.ContainsFunc(steeringPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) ||
		strings.HasSuffix(name, "_PROXY") || strings.HasSuffix(name, "PATH") || strings.HasSuffix(name, "_OPTIONS") || strings.HasSuffix(name, "_OPTS")
}

var (
	steering = []string{
		"ENV", "SHELL", "IFS", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "ZDOTDIR", "HOME", "USERPROFILE", "TMPDIR", "PATHEXT", "COMSPEC",
		"PERL5OPT", "PERL5LIB", "PERL5DB", "PERLLIB", "RUBYOPT", "RUBYLIB", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "R_PROFILE", "R_ENVIRON",
		"EDITOR", "VISUAL", "PAGER", "BROWSER", "SSH_ASKPASS", "OPENSSL_CONF", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
		"CURL_HOME", "WGETRC", "GOFLAGS", "GOENV", "GOTOOLCHAIN", "GOROOT", "CARGO_HOME", "RUSTC_WRAPPER", "RUSTFLAGS", "DENO_DIR", "GNUPGHOME", "KUBECONFIG",
	}
	secretWords      = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"} // NODE_AUTH_TOKEN finds no code
	steeringPrefixes = []string{
		"LD_", "DYLD_", "GCONV_", "GLIBC_", "MALLOC_", "BASH_", "NODE_", "NPM_", "YARN_", "PNPM_", "BUN_", "COREPACK_", "PYTHON", "PIP_", "UV_", "VIRTUAL_ENV",
		"CONDA", "GEM_", "BUNDLE_", "JAVA_", "JDK_", "_JAVA", "MAVEN_", "GRADLE_", "DOTNET_", "CORECLR_", "COR_", "GIT_", "DOCKER_", "XDG_",
	}
)
