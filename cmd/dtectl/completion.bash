declare -A _dtectl_words=(
{{range .}}[_{{.Verb}}]="{{.Words}}"
{{end}})
_dtectl() {
  local verb="" w
  for w in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    [[ -n ${_dtectl_words[_${verb:+$verb }$w]+x} ]] && verb="${verb:+$verb }$w"
  done
  COMPREPLY=($(compgen -W "${_dtectl_words[_$verb]}" -- "${COMP_WORDS[COMP_CWORD]}"))
  [[ ${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o filenames -F _dtectl dtectl
