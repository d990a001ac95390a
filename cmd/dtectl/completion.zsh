typeset -gA _dtectl_words=(
{{range .}}'_{{.Verb}}' '{{.Words}}'
{{end}})
_dtectl() {
  local verb="" w
  for w in ${words[2,CURRENT-1]}; do
    (( ${+_dtectl_words[_${verb:+$verb }$w]} )) && verb="${verb:+$verb }$w"
  done
  compadd -- ${=_dtectl_words[_$verb]} || _files
}
compdef _dtectl dtectl
