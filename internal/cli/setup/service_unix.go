//go:build unix

package setup

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// othersWrite says by what right others than this user and root may write a file, or into a folder; "" is by none.
func othersWrite(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode()
	sticky := info.IsDir() && mode&os.ModeSticky != 0 // what others have there they cannot replace
	switch {
	case !ok:
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Sprintf("its owner is %d", st.Uid)
	case sticky:
	case mode.Perm()&0o002 != 0, mode.Perm()&0o020 != 0 && !ownGroup(st.Gid):
		return fmt.Sprintf("its mode is %#o", mode.Perm())
	}
	return ""
}

// ownGroup reports whether a group is root's, or the one that many systems give each user alone.
func ownGroup(gid uint32) bool {
	if gid == 0 {
		return true
	}
	group, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10))
	if err != nil {
		return false
	}
	me, err := user.Current()
	return err == nil && me.Gid == group.Gid && me.Username == group.Name
}
