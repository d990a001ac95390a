set -g _dtectl_verbs
{{range .}}set -a _dtectl_verbs '{{.Verb}}'; complete -c dtectl -n "_dtectl_at '{{.Verb}}'" -a '{{.Words}}'
{{end}}function _dtectl_at
  set -l verb ""
  for w in (commandline -opc)[2..-1]
    contains -- (string trim "$verb $w") $_dtectl_verbs; and set verb (string trim "$verb $w")
  end
  test "$verb" = "$argv[1]"
end
