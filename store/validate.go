package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// The rules below are applied by every store before anything else, so that a
// hostile name meets the same answer everywhere (SECA-55).

// CheckID holds a value to the rule for IDs: 1 to [MaxID] printable characters.
func CheckID(field, id string) error {
	if len(id) <= MaxID && plain(id) {
		return nil
	}
	if id == "" {
		return &InvalidError{field, "is empty"}
	}
	if len(id) > MaxID*utf8.UTFMax { // before counting: it may be very long
		return &LimitError{field, len(id), MaxID}
	}
	if n := utf8.RuneCountInString(id); n > MaxID {
		return &LimitError{field, n, MaxID}
	}
	if !utf8.ValidString(id) {
		return &InvalidError{field, "is not UTF-8"}
	}
	for _, r := range id {
		if !unicode.IsPrint(r) {
			return &InvalidError{field, fmt.Sprintf("has the character %U, which is not printable", r)}
		}
	}
	return nil
}

// plain reports whether an ID has printable ASCII only, as nearly all have.
func plain(id string) bool {
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return false
		}
	}
	return id != ""
}

// CheckText holds a value to the rule for names and texts: at most [MaxText]
// bytes of UTF-8 without NUL.
func CheckText(field, text string) error {
	if len(text) > MaxText {
		return &LimitError{field, len(text), MaxText}
	}
	if !utf8.ValidString(text) {
		return &InvalidError{field, "is not UTF-8"}
	}
	if strings.IndexByte(text, 0) >= 0 {
		return &InvalidError{field, "has a NUL"}
	}
	return nil
}

func checkBody(field string, body json.RawMessage) error {
	if len(body) > MaxBody {
		return &LimitError{field, len(body), MaxBody}
	}
	if len(body) > 0 && !jsonx.Valid(body) {
		return &InvalidError{field, "is not valid JSON"}
	}
	return nil
}

func checkTime(field string, t time.Time) error {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return &InvalidError{field, "is outside of the years 1 to 9999"}
	}
	return nil
}

// CheckLease checks who wants a lease, and for how long: above zero, at most a year.
func CheckLease(owner string, ttl time.Duration) error {
	if err := CheckID("owner", owner); err != nil {
		return err
	}
	if ttl <= 0 || ttl > 366*24*time.Hour {
		return &InvalidError{"ttl", "is not above zero and at most a year"}
	}
	return nil
}

// Check reports the first rule that r breaks, of the fields Create takes.
func (r Run) Check() error {
	if err := CheckID("run.ID", r.ID); err != nil {
		return err
	}
	if r.State != "" && !r.State.known() {
		return &InvalidError{"run.State", "is unknown"}
	}
	if r.State.Ended() {
		return &InvalidError{"run.State", "is one that ends the run"}
	}
	if r.Imported < 0 {
		return &InvalidError{"run.Imported", "is negative"}
	}
	if r.Job != "" {
		if err := CheckJobID(r.Job); err != nil {
			return err
		}
	}
	return checkTexts("run.Agent", r.Agent, "run.Parent", r.Parent, "run.Title", r.Title,
		"run.Summary", r.Summary, "run.InputHash", r.InputHash)
}

// CheckEvents reports the first rule that events, written together, break.
func CheckEvents(events []Event) error {
	if len(events) > MaxEvents {
		return &LimitError{"append.Events", len(events), MaxEvents}
	}
	total := 0
	for i := range events {
		if err := events[i].Check(); err != nil {
			return err
		}
		if total += len(events[i].Body); total > MaxPageBytes {
			return &LimitError{"append.Events bodies", total, MaxPageBytes}
		}
	}
	return nil
}

// Check reports the first rule that e breaks, of the fields a caller sets.
func (e Event) Check() error {
	if err := CheckID("event.Type", e.Type); err != nil {
		return err
	}
	if err := CheckText("event.Key", e.Key); err != nil {
		return err
	}
	if err := checkTime("event.Time", e.Time); err != nil {
		return err
	}
	if e.handedOver() && len(e.Body) <= MaxBody {
		return nil
	}
	return checkBody("event.Body", e.Body)
}

// Check reports the first rule that a breaks, of the fields OpenAsk takes.
func (a Ask) Check() error {
	if err := CheckID("ask.ID", a.ID); err != nil {
		return err
	}
	if err := CheckID("ask.Kind", a.Kind); err != nil {
		return err
	}
	if a.Run != "" {
		if err := CheckID("ask.Run", a.Run); err != nil {
			return err
		}
	}
	if len(a.Path) > MaxPath {
		return &LimitError{"ask.Path", len(a.Path), MaxPath}
	}
	for _, p := range a.Path {
		if err := CheckText("ask.Path", p); err != nil {
			return err
		}
	}
	if err := checkTexts("ask.Tool", a.Tool, "ask.Server", a.Server, "ask.Origin", a.Origin,
		"ask.Trust", a.Trust, "ask.Hash", a.Hash); err != nil {
		return err
	}
	if err := checkTime("ask.Expires", a.Expires); err != nil {
		return err
	}
	if err := checkBody("ask.Payload", a.Payload); err != nil {
		return err
	}
	return checkBody("ask.Default", a.Default)
}

// Check reports the first rule that d breaks.
func (d Decision) Check() error {
	switch d.Status {
	case AskAccepted, AskDeclined, AskCancelled, AskExpired:
	default:
		return &InvalidError{"decision.Status", "does not settle an ask"}
	}
	if err := checkTexts("decision.Scope", d.Scope, "decision.By", d.By); err != nil {
		return err
	}
	if err := checkTime("decision.At", d.At); err != nil {
		return err
	}
	return checkBody("decision.Answer", d.Answer)
}

// Check reports the first rule that a breaks. File, Server and Hash are required.
func (a Approval) Check() error {
	for _, f := range [...][2]string{{"approval.File", a.File}, {"approval.Server", a.Server}, {"approval.Hash", a.Hash}} {
		if f[1] == "" {
			return &InvalidError{f[0], "is empty"}
		}
	}
	if err := checkTime("approval.At", a.At); err != nil {
		return err
	}
	return checkTexts("approval.File", a.File, "approval.Server", a.Server, "approval.Hash", a.Hash,
		"approval.Shown", a.Shown, "approval.By", a.By)
}

// Check reports the first rule that p breaks. All but At is required.
func (p Pin) Check() error {
	for _, f := range [...][2]string{{"pin.Source", p.Source}, {"pin.Server", p.Server}, {"pin.Tool", p.Tool}, {"pin.Hash", p.Hash}} {
		if f[1] == "" {
			return &InvalidError{f[0], "is empty"}
		}
	}
	if err := checkTime("pin.At", p.At); err != nil {
		return err
	}
	return checkTexts("pin.Source", p.Source, "pin.Server", p.Server, "pin.Tool", p.Tool, "pin.Hash", p.Hash)
}

// Check reports the first rule that r breaks. All but Owner and Value is required.
func (r Record) Check() error {
	if err := CheckRecord(r.Kind, r.Owner, r.Key); err != nil {
		return err
	}
	if r.Expires.IsZero() {
		return &InvalidError{"record.Expires", "is not set"}
	}
	if err := checkTime("record.Expires", r.Expires); err != nil {
		return err
	}
	return checkBody("record.Value", r.Value)
}

// CheckRecord reports the first rule that the names of a record break.
func CheckRecord(kind, owner, key string) error {
	if err := CheckID("record.Kind", kind); err != nil {
		return err
	}
	if err := CheckText("record.Owner", owner); err != nil {
		return err
	}
	return CheckID("record.Key", key)
}

// Check reports the first rule that q breaks.
func (q RecordQuery) Check() error {
	if err := CheckID("query.Kind", q.Kind); err != nil {
		return err
	}
	return checkTexts("query.Owner", q.Owner, "query.After", q.After)
}

// Check reports the first rule that q breaks.
func (q Query) Check() error {
	if len(q.States) > maxStates {
		return &LimitError{"query.States", len(q.States), maxStates}
	}
	for _, s := range q.States {
		if !s.known() {
			return &InvalidError{"query.States", "has an unknown state"}
		}
	}
	return checkTexts("query.Beginning", q.Beginning, "query.Agent", q.Agent, "query.Parent", q.Parent)
}

// Check reports the first rule that q breaks.
func (q AskQuery) Check() error {
	switch q.Status {
	case "", AskPending, AskAccepted, AskDeclined, AskCancelled, AskExpired:
	default:
		return &InvalidError{"query.Status", "is unknown"}
	}
	return checkTexts("query.Run", q.Run, "query.Server", q.Server)
}

// Check reports the first rule that j breaks, of the fields AddJob takes. The ID may
// be empty.
func (j Job) Check() error {
	if j.ID != "" {
		if err := CheckJobID(j.ID); err != nil {
			return err
		}
	}
	if j.Schedule != "" {
		if err := CheckID("job.Schedule", j.Schedule); err != nil {
			return err
		}
	}
	if err := checkTime("job.Expires", j.Expires); err != nil {
		return err
	}
	if err := checkTime("job.NotBefore", j.NotBefore); err != nil {
		return err
	}
	if err := CheckText("job.Key", j.Key); err != nil {
		return err
	}
	return j.checkWork("job")
}

// checkWork checks what a job and a schedule have in common.
func (j Job) checkWork(what string) error {
	if err := CheckID(what+".Agent", j.Agent); err != nil {
		return err
	}
	if err := checkTexts(what+".Batch", j.Batch, what+".Hook", j.Hook); err != nil {
		return err
	}
	if len(j.Prompt) > MaxInput {
		return &LimitError{what + ".Prompt", len(j.Prompt), MaxInput}
	}
	if !utf8.ValidString(j.Prompt) {
		return &InvalidError{what + ".Prompt", "is not UTF-8"}
	}
	if strings.IndexByte(j.Prompt, 0) >= 0 {
		return &InvalidError{what + ".Prompt", "has a NUL"}
	}
	if len(j.Input) > MaxInput {
		return &LimitError{what + ".Input", len(j.Input), MaxInput}
	}
	if j.MaxAttempts < 0 || j.MaxAttempts > MaxAttempts {
		return &InvalidError{what + ".MaxAttempts", fmt.Sprintf("is not between 0 and %d", MaxAttempts)}
	}
	if j.Timeout < 0 {
		return &InvalidError{what + ".Timeout", "is negative"}
	}
	return checkBody(what+".Input", j.Input)
}

// CheckJobID holds a value to the rule for the IDs of jobs: that for IDs, but at most
// [MaxJobID] characters.
func CheckJobID(id string) error {
	if err := CheckID("job.ID", id); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(id); n > MaxJobID {
		return &LimitError{"job.ID", n, MaxJobID}
	}
	return nil
}

// Check reports the first rule that u breaks.
func (u JobUpdate) Check() error {
	if err := CheckJobID(u.ID); err != nil {
		return err
	}
	if err := CheckID("update.Owner", u.Owner); err != nil {
		return err
	}
	if u.State != "" && !u.State.known() {
		return &InvalidError{"update.State", "is unknown"}
	}
	if err := checkTime("update.NotBefore", u.NotBefore); err != nil {
		return err
	}
	if u.Progress < 0 {
		return &InvalidError{"update.Progress", "is negative"}
	}
	if len(u.Waits) > MaxWaits {
		return &LimitError{"update.Waits", len(u.Waits), MaxWaits}
	}
	for _, id := range u.Waits {
		if err := CheckID("update.Waits", id); err != nil {
			return err
		}
	}
	if err := CheckText("update.Error", u.Error); err != nil {
		return err
	}
	return checkBody("update.Result", u.Result)
}

// CheckNotification reports the first rule that the arguments of ClaimNotification break.
func CheckNotification(id string, r *Record) error {
	if err := CheckJobID(id); err != nil || r == nil {
		return err
	}
	return r.Check()
}

// CheckClaim reports the first rule that a claim of jobs breaks.
func CheckClaim(owner string, n int, ttl time.Duration, agents []string, except ...string) error {
	if err := CheckLease(owner, ttl); err != nil {
		return err
	}
	if n < 0 || n > MaxClaim {
		return &InvalidError{"claim", fmt.Sprintf("is not of 0 to %d jobs", MaxClaim)}
	}
	if len(agents) > MaxClaim {
		return &LimitError{"claim.Agents", len(agents), MaxClaim}
	}
	for _, a := range agents {
		if err := CheckID("claim.Agents", a); err != nil {
			return err
		}
	}
	if len(except) > MaxClaim {
		return &LimitError{"claim.Except", len(except), MaxClaim}
	}
	return nil
}

// CheckLeases reports the first rule that a renewal of leases breaks.
func CheckLeases(owner string, ttl time.Duration, leases []JobLease) error {
	if err := CheckLease(owner, ttl); err != nil {
		return err
	}
	if len(leases) > MaxClaim {
		return &LimitError{"leases", len(leases), MaxClaim}
	}
	for _, l := range leases {
		if err := CheckJobID(l.ID); err != nil {
			return err
		}
	}
	return nil
}

// Check reports the first rule that q breaks.
func (q JobQuery) Check() error {
	if len(q.States) > maxStates {
		return &LimitError{"query.States", len(q.States), maxStates}
	}
	for _, s := range q.States {
		if !s.known() {
			return &InvalidError{"query.States", fmt.Sprintf("has the unknown state %.40q: want some of %v", string(s), JobStates())}
		}
	}
	return checkTexts("query.Beginning", q.Beginning, "query.Agent", q.Agent, "query.Batch", q.Batch, "query.Schedule", q.Schedule, "query.Owner", q.Owner)
}

// Check reports the first rule that s breaks.
func (s Schedule) Check() error {
	if err := CheckID("schedule.Name", s.Name); err != nil {
		return err
	}
	if s.Cron == "" {
		return &InvalidError{"schedule.Cron", "is empty"}
	}
	if err := checkTexts("schedule.Cron", s.Cron, "schedule.Zone", s.Zone); err != nil {
		return err
	}
	if err := checkTime("schedule.Next", s.Next); err != nil {
		return err
	}
	return s.Job().checkWork("schedule")
}

// CheckFiring reports the first rule that a firing of a schedule breaks. A zero next
// is that it does not fire again.
func CheckFiring(name string, at, next time.Time) error {
	if err := CheckID("schedule.Name", name); err != nil {
		return err
	}
	if at.IsZero() || !next.IsZero() && !Clock(next).After(Clock(at)) {
		return &InvalidError{"firing", "is not at a time, or the next one is not after it"}
	}
	if err := checkTime("firing.At", at); err != nil {
		return err
	}
	return checkTime("firing.Next", next)
}

func (s RunState) known() bool { return s == Running || s == Waiting || s.Ended() }

// checkTexts takes pairs of a field's name and its value.
func checkTexts(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := CheckText(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// PageSize returns how many entries a page with this limit has.
func PageSize(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Clock returns t as every store keeps it: in UTC, to the microsecond.
func Clock(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
