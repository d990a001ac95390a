package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"dtegate/cmd/term"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash" help:"bash."`
}

// Run prints the completion of the shell, made of the same table of verbs that the command line is read by.
func (*completionCommand) Run(k *kong.Context) error {
	term.Printf("declare -A _dtectl_words=(\n")
	describeVerbs(k.Model.Node, nil)
	term.Printf(")\n")
	for line := range strings.Lines(completer) {
		term.Printf("%s\n", strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// describeVerbs prints a line for each verb: what may follow it.
func describeVerbs(n *kong.Node, path []string) {
	var words []string
	for _, c := range n.Children {
		if !c.Hidden {
			words = append(words, c.Name)
		}
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			words = append(words, "--"+f.Name)
		}
	}
	term.Printf("[_%s]=\"%s\"\n", strings.Join(path, " "), strings.Join(words, " "))
	for _, c := range n.Children {
		if !c.Hidden {
			describeVerbs(c, append(path, c.Name))
		}
	}
}

// completer finds the verb that stands on the line, and offers what may follow it, else files.
const completer = `_dtectl() {
  local verb="" w
  for w in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    [[ -n ${_dtectl_words[_${verb:+$verb }$w]+x} ]] && verb="${verb:+$verb }$w"
  done
  COMPREPLY=($(compgen -W "${_dtectl_words[_$verb]}" -- "${COMP_WORDS[COMP_CWORD]}"))
  [[ ${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o filenames -F _dtectl dtectl
`
