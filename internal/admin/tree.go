package admin

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
)

// Process identifies the process behind a socket. It is the answer of GET /health.
type Process struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"` // such as "worker"
	Started time.Time `json:"started"` // when it began to listen
}

// Tree is the answer of GET /tree: the live actors of a process.
type Tree struct {
	Process Process `json:"process"`
	// Actors are those with a mailbox of their own, by path; a parent comes before its
	// children. At most [MaxActors] are listed.
	Actors []Actor `json:"actors"`
	// More is how many are left out of Actors.
	More int `json:"more,omitzero"`
	// Kinds counts all actors, those on the inline mailbox too, in the order of the tree.
	Kinds []Kind `json:"kinds"`
	// Tasks are the goroutines that actors have running, by owner.
	Tasks []Task `json:"tasks"`
	// Dropped counts messages to actors that had stopped.
	Dropped int64 `json:"dropped"`
}

// MaxActors bounds [Tree].Actors.
const MaxActors = 20_000

// Actor is a live actor.
type Actor struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	// State is the label of the process, such as "waiting" for a run, and else "live".
	State     string    `json:"state"`
	Title     string    `json:"title,omitempty"` // of a run
	Started   time.Time `json:"started"`
	AgeMS     int64     `json:"ageMs"`
	Restarts  int       `json:"restarts"`
	LastError string    `json:"lastError,omitempty"` // of its newest failure
}

// StateStalled is the state of a run that waits for the store.
const StateStalled = "stalled"

// StateAway is the state of a provider of models that does not work: see [ProviderState].
const StateAway = "away"

// Kind counts the actors of one kind.
type Kind struct {
	Kind      string `json:"kind"`
	Live      int64  `json:"live"`
	Inline    int64  `json:"inline"` // of the live ones: those that Actors does not list
	Spawned   int64  `json:"spawned"`
	Failed    int64  `json:"failed"`
	Restarted int64  `json:"restarted"`
}

// Task counts the running tasks of one owner.
type Task struct {
	Owner   string `json:"owner"`
	Running int    `json:"running"`
}

// Label describes an actor.
type Label struct{ State, Title string }

// maxError bounds the text of an actor's failure.
const maxError = 500

// treeOf returns the tree of a system; labels may be nil.
func treeOf(sys *actors.System, now time.Time, labels func(actors.Info) Label) Tree {
	census, infos := sys.Census(), sys.Tree()
	t := Tree{Actors: []Actor{}, Kinds: []Kind{}, Tasks: []Task{}, Dropped: census.Dropped}
	listed := make(map[actors.Kind]int64)
	for i, info := range infos {
		listed[info.Kind]++
		if i >= MaxActors {
			t.More++
			continue
		}
		a := Actor{Path: info.Path, Kind: info.Kind.String(), State: "live", Started: info.Started.UTC(),
			AgeMS: max(0, now.Sub(info.Started).Milliseconds()), Restarts: info.Restarts}
		if info.LastError != nil {
			a.LastError = clip.Text(info.LastError.Error(), maxError)
		}
		if labels != nil {
			l := labels(info)
			a.State, a.Title = cmp.Or(l.State, a.State), l.Title
		}
		t.Actors = append(t.Actors, a)
	}
	for _, kind := range actors.Kinds() {
		if c, ok := census.Actors[kind]; ok {
			t.Kinds = append(t.Kinds, Kind{Kind: kind.String(), Live: c.Live, Inline: max(0, c.Live-listed[kind]),
				Spawned: c.Spawned, Failed: c.Failed, Restarted: c.Restarted})
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(census.Tasks)) {
		t.Tasks = append(t.Tasks, Task{owner, census.Tasks[owner]})
	}
	return t
}

// maxSiblings is how many siblings of one kind are shown one by one.
const maxSiblings = 20

// Branch is an actor of a tree with what is below it, or, without Actor, many siblings of one kind that
// have nothing to report.
type Branch struct {
	Actor *Actor
	Kind  string // of the siblings
	N     int    // of them
	Below []Branch
}

// Branches returns the actors as they are below each other.
func (t *Tree) Branches() []Branch {
	below := make(map[string][]*Actor) // by the path of the parent
	there := make(map[string]bool)
	for i := range t.Actors {
		there[t.Actors[i].Path] = true
	}
	for i := range t.Actors {
		a := &t.Actors[i]
		parent := a.Path
		for {
			slash := strings.LastIndexByte(parent, '/')
			if slash <= 0 {
				parent = ""
				break
			}
			if parent = parent[:slash]; there[parent] {
				break
			}
		}
		below[parent] = append(below[parent], a)
	}
	return branches(below, "")
}

// branches returns the actors below one. Siblings of a kind that are many and have nothing to report are
// one branch.
func branches(below map[string][]*Actor, parent string) []Branch {
	siblings := below[parent]
	quiet := func(a *Actor) bool {
		return a.Restarts == 0 && a.LastError == "" && a.State != StateAway && len(below[a.Path]) == 0
	}
	count := make(map[string]int)
	for _, a := range siblings {
		if quiet(a) {
			count[a.Kind]++
		}
	}
	var out []Branch
	var folded []string
	for _, a := range siblings {
		switch {
		case !quiet(a) || count[a.Kind] <= maxSiblings:
			out = append(out, Branch{Actor: a, Below: branches(below, a.Path)})
		case !slices.Contains(folded, a.Kind):
			folded = append(folded, a.Kind)
			out = append(out, Branch{Kind: a.Kind, N: count[a.Kind]})
		}
	}
	return out
}

// Name returns what an actor is called in the tree: its path's last part, without what was made up.
func (a *Actor) Name() string {
	name := a.Path[strings.LastIndexByte(a.Path, '/')+1:]
	name, _, _ = strings.Cut(name, "$") // what is behind was made up
	if name == a.Kind {
		return ""
	}
	return strings.TrimPrefix(name, a.Kind+"-")
}
