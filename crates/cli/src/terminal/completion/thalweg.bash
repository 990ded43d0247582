# bash completion for thalweg: source it, or save it as ~/.local/share/bash-completion/completions/thalweg
_thalweg() {
    mapfile -t COMPREPLY < <(COMPLETE=bash _THALWEG_LINE="${COMP_LINE:0:COMP_POINT}" _THALWEG_REPLACED="$2" thalweg 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace
    fi
}
complete -o bashdefault -o default -F _thalweg thalweg
