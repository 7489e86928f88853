# cmake -DHERE=FOLDER -DTO=FOLDER -P assemble.cmake: the page as one file, TO/page.html, and the hashes by which its policy
# allows its style and its script and nothing else, as C: TO/page_hashes.c.
set(scripts dom wire markdown cluster chat main) # each uses those before it
file(READ ${HERE}/index.html page)
file(READ ${HERE}/style.css style)
set(script "")
foreach(name ${scripts})
  file(READ ${HERE}/${name}.js text)
  string(APPEND script "${text}")
endforeach()
if("${style}${script}" MATCHES "</(script|style)|<!--")
  message(FATAL_ERROR "router/serve/page: ${CMAKE_MATCH_0} would end the page's script or style")
endif()
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${TO}/page.html "${page}")

# The base64 of a hexadecimal text whose bytes are two more than a multiple of three, as a SHA-256 has them.
function(base64_of hex out)
  set(alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  set(result "")
  string(LENGTH ${hex}00 n)
  math(EXPR last "${n} - 6")
  foreach(at RANGE 0 ${last} 6)
    string(SUBSTRING ${hex}00 ${at} 6 three)
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${three} >> ${shift}) & 63")
      string(SUBSTRING ${alphabet} ${digit} 1 letter)
      string(APPEND result ${letter})
    endforeach()
  endforeach()
  string(REGEX REPLACE ".$" "=" result ${result})
  set(${out} ${result} PARENT_SCOPE)
endfunction()

string(SHA256 of_style "${style}")
string(SHA256 of_script "${script}")
string(SHA256 of_page "${page}")
base64_of(${of_style} style_hash)
base64_of(${of_script} script_hash)
string(SUBSTRING ${of_page} 0 16 tag)
file(WRITE ${TO}/page_hashes.c "#include \"router/serve/page.h\"

const char page_style_hash[] = \"sha256-${style_hash}\";
const char page_script_hash[] = \"sha256-${script_hash}\";
const char page_tag[] = \"\\\"${tag}\\\"\";
")
