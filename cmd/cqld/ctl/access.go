package ctl

import (
	"fmt"
	"io"

	"cqld/node/control"
)

// resetSuperuserCommand reads a password from a file, because arguments of a process are visible to other users. The
// node accepts the operation only from its own machine. It restores access when all passwords are lost.
type resetSuperuserCommand struct {
	Role         string `arg:"" help:"The superuser; it is created if it does not exist."`
	PasswordFile string `help:"File with the new password, which other users must not be able to read. By default the node generates one, which is printed." type:"path" placeholder:"FILE"`
}

// Run gives a superuser a new password.
func (c *resetSuperuserCommand) Run(s *session) error {
	// An empty password asks the node to generate one.
	args := control.SuperuserArgs{Role: c.Role}
	if c.PasswordFile != "" {
		var err error
		if args.Password, err = control.ReadPasswordFile(c.PasswordFile); err != nil {
			return err
		}
	}
	// The node returns a password only if it has generated it.
	return ask(s, control.ResetSuperuser, args, func(w io.Writer, r control.Superuser) error {
		if r.Password == "" {
			_, err := fmt.Fprintf(w, "Superuser %s has the password of the file.\n", r.Role)
			return err
		}
		_, err := fmt.Fprintf(w, "Superuser %s has the password %s\n", r.Role, r.Password)
		return err
	})
}

// updateCIDRGroupCommand replaces all ranges of a group, as nodetool does.
type updateCIDRGroupCommand struct {
	Name  string   `arg:"" help:"The CIDR group."`
	CIDRs []string `arg:"" name:"cidrs" help:"Its ranges, such as 192.0.2.0/24. They replace all present ones."`
}

// Run creates a CIDR group or replaces its ranges.
func (c *updateCIDRGroupCommand) Run(s *session) error {
	// As in nodetool, success prints nothing.
	return ask(s, control.UpdateCIDRGroup, control.CIDRGroup{Name: c.Name, CIDRs: c.CIDRs}, quiet[control.None])
}

// dropCIDRGroupCommand names the group to be removed.
type dropCIDRGroupCommand struct {
	Name string `arg:"" help:"The CIDR group."`
}

// Run removes a CIDR group.
func (c *dropCIDRGroupCommand) Run(s *session) error {
	return ask(s, control.DropCIDRGroup, control.CIDRGroupArgs{Name: c.Name}, func(w io.Writer, _ control.None) error {
		_, err := fmt.Fprintf(w, "Deleted CIDR group %s\n", c.Name)
		return err
	})
}

// listCIDRGroupsCommand prints names, or the ranges of the named group.
type listCIDRGroupsCommand struct {
	Name string `arg:"" optional:"" help:"The CIDR group whose ranges are listed; by default the names of all groups are."`
}

// Run lists the CIDR groups, or the ranges of one.
func (c *listCIDRGroupsCommand) Run(s *session) error {
	return ask(s, control.ListCIDRGroups, control.CIDRGroupArgs{Name: c.Name},
		func(w io.Writer, r control.CIDRGroups) error {
			// nodetool prints names only, or the ranges of the group that is named.
			if c.Name == "" {
				return printGroups(w, r)
			}
			fmt.Fprintln(w, "CIDRs:")
			for _, g := range r.Groups {
				for _, cidr := range g.CIDRs {
					fmt.Fprintln(w, cidr)
				}
			}
			return nil
		})
}

// cidrGroupsOfIPCommand checks an address against all groups, before clients connect from it. The address need not
// belong to a connected client.
type cidrGroupsOfIPCommand struct {
	IP string `arg:"" name:"ip" help:"The address."`
}

// Run lists the CIDR groups that contain an address.
func (c *cidrGroupsOfIPCommand) Run(s *session) error {
	return ask(s, control.CIDRGroupsOfIP, control.IPArgs{IP: c.IP}, printGroups)
}

// printGroups prints the names of groups, one on a line.
func printGroups(w io.Writer, r control.CIDRGroups) error {
	fmt.Fprintln(w, "CIDR Groups:")
	for _, g := range r.Groups {
		fmt.Fprintln(w, g.Name)
	}
	return nil
}
