package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testRecords: what belongs to one owner is not there for another (SECA-12).
func testRecords(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	expires := store.Clock(time.Now().Add(ttl))
	put := func(kind, owner, key string, n int) store.Record {
		t.Helper()
		r := store.Record{Kind: kind, Owner: owner, Key: key, Value: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Expires: expires}
		if err := s.PutRecord(t.Context(), r); err != nil {
			t.Fatalf("PutRecord(%+v): %v", r, err)
		}
		return r
	}
	b := put("task", "ada", "b", 1)
	a := put("task", "ada", "a", 2)
	other := put("task", "bob", "a", 3)
	unowned := put("task", "", "a", 4)
	ticket := put("ticket", "ada", "a", 5)
	for _, want := range []store.Record{a, b, other, unowned, ticket} {
		got, err := s.Record(t.Context(), want.Kind, want.Owner, want.Key)
		wantErr(t, "Record", err, nil)
		wantEqual(t, "Record", got, want)
	}
	for _, miss := range [][3]string{{"task", "bob", "b"}, {"task", "", "b"}, {"Task", "ada", "a"}, {"task", "Ada", "a"},
		{"task", "ada", "A"}, {"task", "%", "a"}, {"task", "ada", "%"}} {
		if _, err := s.Record(t.Context(), miss[0], miss[1], miss[2]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Record(%q): got %v, want ErrNotFound", miss, err)
		}
		if err := s.DeleteRecord(t.Context(), miss[0], miss[1], miss[2]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("DeleteRecord(%q): got %v, want ErrNotFound", miss, err)
		}
	}
	wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada"}, a, b)
	wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada", Limit: 1}, a)
	wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada", Limit: 1, After: "a"}, b)
	wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada", After: "b"})
	wantRecords(t, s, store.RecordQuery{Kind: "task"}, unowned)

	a = put("task", "ada", "a", 9)
	wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada"}, a, b)
	wantErr(t, "DeleteRecord", s.DeleteRecord(t.Context(), "task", "ada", "a"), nil)
	wantErr(t, "DeleteRecord again", s.DeleteRecord(t.Context(), "task", "ada", "a"), store.ErrNotFound)
	wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada"}, b)
	wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "bob"}, other)
}

func wantRecords(t *testing.T, s store.Store, q store.RecordQuery, want ...store.Record) {
	t.Helper()
	got, err := s.Records(t.Context(), q)
	wantErr(t, "Records", err, nil)
	wantEqual(t, fmt.Sprintf("Records(%+v)", q), got, append([]store.Record{}, want...))
}

// testRecordExpiry: what has expired is gone for every method, and takes no room.
func testRecordExpiry(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		r := store.Record{Kind: "task", Owner: "ada", Key: "k", Expires: store.Clock(time.Now().Add(time.Minute))}
		wantErr(t, "PutRecord", s.PutRecord(t.Context(), r), nil)
		time.Sleep(time.Minute - time.Microsecond)
		wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada"}, r)
		time.Sleep(time.Microsecond)
		_, err := s.Record(t.Context(), "task", "ada", "k")
		wantErr(t, "Record at its expiry", err, store.ErrNotFound)
		wantErr(t, "DeleteRecord at its expiry", s.DeleteRecord(t.Context(), "task", "ada", "k"), store.ErrNotFound)
		wantRecords(t, s, store.RecordQuery{Kind: "task", Owner: "ada"})

		large := json.RawMessage(`"` + strings.Repeat("x", store.MaxBody-2) + `"`)
		put := func(owner, key string, value json.RawMessage) error {
			return s.PutRecord(t.Context(), store.Record{Kind: "task", Owner: owner, Key: key, Value: value, Expires: time.Now().Add(time.Minute)})
		}
		for i := range store.MaxOwnedBytes / store.MaxBody {
			wantErr(t, "PutRecord of 16 MiB", put("ada", fmt.Sprint(i), large), nil)
		}
		wantErr(t, "PutRecord above the owner's share", put("ada", "more", json.RawMessage(`1`)), store.ErrTooLarge)
		wantErr(t, "PutRecord of another owner", put("bob", "more", json.RawMessage(`1`)), nil)
		list, err := s.Records(t.Context(), store.RecordQuery{Kind: "task", Owner: "ada"})
		if err != nil || len(list) != 2 {
			t.Errorf("Records of 4 values of 16 MiB: got %d, %v, want 2", len(list), err)
		}
		time.Sleep(time.Minute)
		wantErr(t, "PutRecord once the others have expired", put("ada", "more", json.RawMessage(`1`)), nil)
	})
}

// testRecordLimits: an owner cannot use up the space of the others.
func testRecordLimits(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	expires := time.Now().Add(ttl)
	put := func(r store.Record) error { return s.PutRecord(t.Context(), r) }
	for i := range store.MaxOwned {
		if err := put(store.Record{Kind: "k", Owner: "ada", Key: fmt.Sprint(i), Expires: expires}); err != nil {
			t.Fatalf("PutRecord %d: %v", i, err)
		}
	}
	long := strings.Repeat("x", store.MaxText+1)
	tests := []struct {
		what string
		err  error
		want error
	}{
		{"one too many", put(store.Record{Kind: "k", Owner: "ada", Key: "more", Expires: expires}), store.ErrTooLarge},
		{"one too many of another kind", put(store.Record{Kind: "l", Owner: "ada", Key: "more", Expires: expires}), store.ErrTooLarge},
		{"one again", put(store.Record{Kind: "k", Owner: "ada", Key: "7", Value: json.RawMessage(`7`), Expires: expires}), nil},
		{"another's", put(store.Record{Kind: "k", Owner: "bob", Key: "more", Expires: expires}), nil},
		{"no expiry", put(store.Record{Kind: "k", Key: "a"}), store.ErrInvalid},
		{"no kind", put(store.Record{Key: "a", Expires: expires}), store.ErrInvalid},
		{"no key", put(store.Record{Kind: "k", Expires: expires}), store.ErrInvalid},
		{"a key too long", put(store.Record{Kind: "k", Key: long, Expires: expires}), store.ErrTooLarge},
		{"an owner too long", put(store.Record{Kind: "k", Owner: long, Key: "a", Expires: expires}), store.ErrTooLarge},
		{"a value that is not JSON", put(store.Record{Kind: "k", Key: "a", Value: json.RawMessage(`{`), Expires: expires}), store.ErrInvalid},
		{"a value too large", put(store.Record{Kind: "k", Key: "a", Value: json.RawMessage(`"` + strings.Repeat("x", store.MaxBody) + `"`), Expires: expires}), store.ErrTooLarge},
	}
	for _, tt := range tests {
		wantErr(t, tt.what, tt.err, tt.want)
	}
	list, err := s.Records(t.Context(), store.RecordQuery{Kind: "k", Owner: "ada"})
	if err != nil || len(list) != store.MaxPage {
		t.Errorf("Records: got %d, %v, want a page of %d", len(list), err, store.MaxPage)
	}
}

func hostileRecord(t *testing.T, s store.Store, name string) {
	t.Helper()
	in := store.Record{Kind: name, Owner: name, Key: name, Value: mustJSON(name), Expires: store.Clock(time.Now().Add(ttl))}
	wantErr(t, fmt.Sprintf("PutRecord(%q)", name), s.PutRecord(t.Context(), in), nil)
	wantRecords(t, s, store.RecordQuery{Kind: name, Owner: name}, in)
	wantErr(t, fmt.Sprintf("DeleteRecord(%q)", name), s.DeleteRecord(t.Context(), name, name, name), nil)
}
