package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
)

// If root runs dtectl at a box, dtectl changes to the account that owns the branch's data: dted could not write root's
// files. Before the change it finds the operator's name for the audit trail, and reads the files on the command line,
// which perhaps only root may read.

// authoring lists the verbs that make rules and demonstrations. Like the fleet verbs, they touch no box, and the files
// that they write belong to their user.
var authoring = []string{"completion", "rules keygen", "rules new", "rules test", "rules build", "rules sign", "demo"}

// becomeAccount moves a process of root to the account that owns the branch's data. It does nothing for another user,
// for an authoring or fleet verb, if root owns the data, or if the configuration or the data is unusable.
func becomeAccount(path string, command *kong.Context) error {
	if os.Geteuid() != 0 || slices.Contains(authoring, verb(command)) || strings.HasPrefix(verb(command), "fleet ") {
		return nil
	}
	cfg, err := config.Load(path)
	if err != nil {
		return nil
	}
	info, err := os.Stat(adminclient.ExistingAbove(cfg.Data))
	if err != nil {
		return nil // the verb meets the same error
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	adminclient.Who() // before the account changes: later the operator's name is not known
	adminclient.HandOver(named(command))
	gid, groups := int(owner.Gid), []int{int(owner.Gid)}
	if u, err := user.LookupId(strconv.Itoa(int(owner.Uid))); err == nil {
		if own, err := strconv.Atoi(u.Gid); err == nil {
			gid, groups = own, []int{own, int(owner.Gid)}
		}
	}
	if err := errors.Join(syscall.Setgroups(groups), syscall.Setgid(gid), syscall.Setuid(int(owner.Uid))); err != nil {
		return fmt.Errorf("becoming the account that owns %s: %w", cfg.Data, err)
	}
	return nil
}

// verb returns the words of a command without its arguments: "rules push".
func verb(command *kong.Context) string {
	var words []string
	for n := command.Selected(); n != nil && n.Type != kong.ApplicationNode; n = n.Parent {
		words = append(words, n.Name)
	}
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// named returns the existing files that the command line names.
func named(command *kong.Context) (files []string) {
	values := slices.Clone(command.Selected().Positional)
	for _, f := range command.Flags() {
		values = append(values, f.Value)
	}
	for _, v := range values {
		if v.Tag.Type != "existingfile" {
			continue
		}
		switch target := v.Target.Interface().(type) {
		case string:
			files = append(files, target)
		case []string:
			files = append(files, target...)
		}
	}
	return slices.DeleteFunc(files, func(f string) bool { return f == "" })
}

// unreachable explains, to an operator who is root, why a file could not be read or written.
func unreachable(err error) error {
	if !adminclient.HandedOver() || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fmt.Errorf("%w (dtectl works as %s, the owner of the branch's data: that account must be able to reach "+
		"the files that dtectl reads and writes)", err, name)
}
